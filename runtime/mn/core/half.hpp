/// Converts 16-bit floats to float32 and back, without branches, so that the compiler can turn loops into SIMD code.
/// The functions are constexpr for GPU kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include <mn/core/buffer.hpp>

namespace mn {

[[nodiscard]] constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Converts a float16 exactly, even a subnormal number. A NaN becomes a quiet NaN, as in the CPU's conversion.
[[nodiscard]] constexpr float to_float(Float16 value) {
  const std::uint32_t magnitude = value.bits & 0x7fffU;
  const std::uint32_t mantissa = magnitude & 0x03ffU;
  const auto subnormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(mantissa)) * 0x1p-24F);
  const std::uint32_t normal = (magnitude << 13) + (112U << 23);  // the exponent's bias grows from 15 to 127
  const std::uint32_t quiet = mantissa != 0 ? 0x00400000U : 0U;
  const std::uint32_t special = (magnitude << 13) | 0x7f800000U | quiet;  // infinities and NaNs
  const std::uint32_t finite = magnitude < 0x0400U ? subnormal : normal;
  const std::uint32_t result = magnitude >= 0x7c00U ? special : finite;
  return std::bit_cast<float>(result | (static_cast<std::uint32_t>(value.bits & 0x8000U) << 16));
}

/// Rounds to the nearest bfloat16; of two equally near numbers, the even one. A NaN stays a NaN.
[[nodiscard]] constexpr BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x0040U : rounded)};
}

/// Rounds to the nearest float16; of two equally near numbers, the even one. Overflow gives infinity. A NaN becomes a
/// quiet NaN, as in the CPU's conversion.
[[nodiscard]] constexpr Float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  // Rounds `magnitude` to a subnormal Float16, whose last bit is worth 2^-24. The last bit of a float near 0.5 has the
  // same worth. Therefore the addition of 0.5 rounds to a multiple of 2^-24.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t normal = (magnitude + 0x0fffU + ((magnitude >> 13) & 1U) - (112U << 23)) >> 13;
  const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : std::min(normal, 0x7c00U);
  const std::uint32_t special = magnitude > 0x7f800000U ? 0x7e00U | ((magnitude >> 13) & 0x03ffU) : 0x7c00U;
  const std::uint32_t result = magnitude >= 0x7f800000U ? special : finite;
  return {static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000U))};
}

/// The type in which computations on elements of type T are made.
template <class T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Converts without rounding.
template <class T>
constexpr Real<T> widen(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value;
  else
    return to_float(value);
}

template <class T>
constexpr T round_to(Real<T> value) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else if constexpr (std::is_same_v<T, Float16>)
    return to_float16(value);
  else
    return value;
}

}  // namespace mn
