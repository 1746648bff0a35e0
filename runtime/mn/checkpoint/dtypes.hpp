/// libtorch's dtypes and their names in safetensors files.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace mn {

/// The name of a dtype in safetensors: "F32" for at::kFloat. Throws ArgumentError that names the tensor if the format
/// lacks the dtype.
[[nodiscard]] std::string safetensors_dtype(const std::string& tensor, at::ScalarType type);
/// Returns a complex tensor as pairs of real numbers, (…, 2), in the same memory if possible. Returns other tensors
/// unchanged. Pairs are stored because safetensors has a name for only one complex dtype, and few programs know this
/// name.
[[nodiscard]] at::Tensor as_pairs(const at::Tensor& tensor);

/// The dtype that safetensors_dtype() calls `name`. Throws DataError for an unknown name.
[[nodiscard]] at::ScalarType torch_dtype(const std::string& name);

}  // namespace mn
