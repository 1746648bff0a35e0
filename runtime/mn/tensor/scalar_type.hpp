/// Converts between mn's and libtorch's names of element types. Internal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>

#include <c10/core/ScalarType.h>

#include <mn/core/buffer.hpp>

namespace mn {

/// libtorch's name of each type, in the order of DType.
inline constexpr at::ScalarType kScalarTypes[] = {at::kByte,  at::kInt,    at::kLong,  at::kHalf, at::kBFloat16,
                                                  at::kFloat, at::kDouble, at::kBool,  at::kChar, at::kUInt64,
                                                  at::kShort, at::kUInt16, at::kUInt32};
static_assert(std::size(kScalarTypes) == kDTypeCount);

[[nodiscard]] constexpr at::ScalarType scalar_type(DType type) { return kScalarTypes[static_cast<std::size_t>(type)]; }

[[nodiscard]] constexpr std::optional<DType> dtype_of(at::ScalarType type) {
  const auto* found = std::ranges::find(kScalarTypes, type);
  return found == std::end(kScalarTypes) ? std::nullopt : std::optional(static_cast<DType>(found - kScalarTypes));
}

/// mn's name of a type that mn's kernels take: float16, bfloat16, float32 or float64. No value for other types.
[[nodiscard]] constexpr std::optional<DType> float_type(at::ScalarType type) {
  const std::optional<DType> dtype = dtype_of(type);
  return dtype && is_float(*dtype) ? dtype : std::nullopt;
}

}  // namespace mn
