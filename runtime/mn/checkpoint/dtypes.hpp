/// Conversions between libtorch's dtypes and their names in safetensors files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

struct SafetensorsEntry;

/// Returns the name of a dtype in safetensors files, for instance "F32" for at::kFloat. If the dtype has no name,
/// throws an ArgumentError that mentions the tensor.
[[nodiscard]] std::string safetensors_dtype(const std::string& tensor, at::ScalarType type);
/// Returns a complex tensor as pairs of real numbers with shape (…, 2), because safetensors names only one complex
/// dtype, and few programs know it. The result shares the tensor's memory if possible. Returns every other tensor
/// unchanged.
[[nodiscard]] at::Tensor as_pairs(const at::Tensor& tensor);

/// True if libtorch has the dtype that safetensors calls `name`.
[[nodiscard]] bool has_torch_dtype(const std::string& name) noexcept;
/// The dtype that safetensors calls `name`. Throws DataError for an unknown name.
[[nodiscard]] at::ScalarType torch_dtype(const std::string& name);

/// Returns a tensor without memory (device at::kMeta), whose dtype and shape are those of a tensor in a file. Complex
/// numbers are stored as pairs. If libtorch lacks the dtype, throws DataError.
[[nodiscard]] at::Tensor form_of_stored(const std::string& dtype, std::vector<std::int64_t> shape, bool is_complex);

/// Returns a copy of the tensor on the CPU. If libtorch lacks the dtype, throws a DataError that begins with `source`.
[[nodiscard]] at::Tensor to_tensor(const SafetensorsEntry& entry, const std::string& source);

}  // namespace mn
