/// libtorch's dtypes and their names in safetensors files.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace mn {

struct SafetensorsEntry;

/// The name of a dtype in safetensors: "F32" for at::kFloat. Throws ArgumentError that names the tensor if the format
/// lacks the dtype.
[[nodiscard]] std::string safetensors_dtype(const std::string& tensor, at::ScalarType type);
/// Returns a complex tensor as pairs of real numbers, (…, 2), in the same memory if possible. Returns other tensors
/// unchanged. Pairs are stored because safetensors has a name for only one complex dtype, and few programs know this
/// name.
[[nodiscard]] at::Tensor as_pairs(const at::Tensor& tensor);

/// True if libtorch has the dtype that safetensors calls `name`.
[[nodiscard]] bool has_torch_dtype(const std::string& name) noexcept;
/// The dtype that safetensors_dtype() calls `name`. Throws DataError for an unknown name.
[[nodiscard]] at::ScalarType torch_dtype(const std::string& name);

/// A copy of a tensor of a file, on the CPU. Throws DataError that begins with `source` if libtorch lacks the dtype.
[[nodiscard]] at::Tensor to_tensor(const SafetensorsEntry& entry, const std::string& source);

}  // namespace mn
