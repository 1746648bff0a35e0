/// Conversions between libtorch's dtypes and their names in safetensors files.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace mn {

struct SafetensorsEntry;

/// The dtype's name, "F32" for at::kFloat. If there is none, throws an ArgumentError that names the tensor.
[[nodiscard]] std::string safetensors_dtype(const std::string& tensor, at::ScalarType type);
/// Returns a complex tensor as pairs of real numbers, shape (…, 2), in the same memory if possible: safetensors names
/// only one complex dtype, which few programs know. Returns every other tensor unchanged.
[[nodiscard]] at::Tensor as_pairs(const at::Tensor& tensor);

/// True if libtorch has the dtype that safetensors calls `name`.
[[nodiscard]] bool has_torch_dtype(const std::string& name) noexcept;
/// The dtype that safetensors calls `name`. Throws DataError for an unknown name.
[[nodiscard]] at::ScalarType torch_dtype(const std::string& name);

/// A copy of the tensor on the CPU. For a dtype that libtorch lacks, throws a DataError that begins with `source`.
[[nodiscard]] at::Tensor to_tensor(const SafetensorsEntry& entry, const std::string& source);

}  // namespace mn
