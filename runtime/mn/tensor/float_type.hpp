/// mn's names of libtorch's float types. Internal.
#pragma once

#include <optional>

#include <c10/core/ScalarType.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// Converts libtorch's type to mn's name of the type. Returns no value if `type` is not float16, bfloat16, float32 or
/// float64, because mn's kernels take only these.
[[nodiscard]] inline std::optional<DType> float_type(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    default:
      return std::nullopt;
  }
}

}  // namespace mn
