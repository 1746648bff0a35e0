/// Conversions between libtorch's dtypes and their names in safetensors files.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace mn {

struct SafetensorsEntry;

/// The name of a dtype in safetensors, for instance "F32" for at::kFloat. If the format lacks the dtype, throws an
/// ArgumentError that names the tensor.
[[nodiscard]] std::string safetensors_dtype(const std::string& tensor, at::ScalarType type);
/// Returns a complex tensor as pairs of real numbers, with the shape (…, 2), in the same memory if possible. Returns
/// every other tensor unchanged. Pairs are stored, because safetensors has a name for only one complex dtype, and few
/// programs know this name.
[[nodiscard]] at::Tensor as_pairs(const at::Tensor& tensor);

/// True if libtorch has the dtype that safetensors calls `name`.
[[nodiscard]] bool has_torch_dtype(const std::string& name) noexcept;
/// The dtype that safetensors calls `name`. Throws DataError for an unknown name.
[[nodiscard]] at::ScalarType torch_dtype(const std::string& name);

/// Copies a tensor of a file into a new tensor on the CPU. If libtorch lacks the dtype, throws a DataError that begins
/// with `source`.
[[nodiscard]] at::Tensor to_tensor(const SafetensorsEntry& entry, const std::string& source);

}  // namespace mn
