/// mn's names of libtorch's float types. Internal.
#pragma once

#include <optional>

#include <c10/core/ScalarType.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// The dtype that mn's kernels compute with for tensors of this type; no value if it is not float16, bfloat16, float32
/// or float64.
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
