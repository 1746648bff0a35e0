/// libtorch's dtypes by the names that safetensors files have for them.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace mn {

/// "F32" of at::kFloat. Throws ArgumentError that names the tensor for a dtype that the format lacks.
[[nodiscard]] std::string safetensors_dtype(const std::string& tensor, at::ScalarType type);
/// Complex numbers as pairs of real ones, (…, 2), which share their memory where they can; other tensors as they are.
/// The format has names for few complex dtypes, which few readers know.
[[nodiscard]] at::Tensor as_pairs(const at::Tensor& tensor);

/// The reverse of safetensors_dtype(). Throws DataError for an unknown name.
[[nodiscard]] at::ScalarType torch_dtype(const std::string& name);

}  // namespace mn
