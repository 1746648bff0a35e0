/// libtorch's dtypes by the names that safetensors files have for them.
#pragma once

#include <string>

#include <c10/core/ScalarType.h>

namespace mn {

/// "F32" of at::kFloat. Throws ArgumentError that names the tensor for a dtype that the format lacks.
[[nodiscard]] std::string safetensors_dtype(const std::string& tensor, at::ScalarType type);
/// The reverse. Throws DataError for an unknown name.
[[nodiscard]] at::ScalarType torch_dtype(const std::string& name);

}  // namespace mn
