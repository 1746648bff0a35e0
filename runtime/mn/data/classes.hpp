/// Finds the range of a field's values, to check that they are class numbers, and converts them to integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mn/core/buffer.hpp>

namespace mn::data {

/// Largest number of classes. A field with larger values does not hold classes.
inline constexpr std::int64_t kMaxClasses = std::int64_t{1} << 31;

struct ClassRange {
  std::int64_t least = 0;
  std::int64_t most = -1;
  std::uint64_t largest = 0;  ///< the largest value, even above int64's maximum; 0 if `most` is negative
  /// Whether all values are in 0 … num_classes − 1.
  [[nodiscard]] bool is_in(std::int64_t num_classes) const noexcept { return least >= 0 && most < num_classes; }
  /// A value that is not a class number, as text. Call it only if is_in() is false.
  [[nodiscard]] std::string outlier() const { return least < 0 ? std::to_string(least) : std::to_string(largest); }
};

/// The smallest and the largest of the integers in `bytes`; ClassRange() if `bytes` is empty. In `least` and `most`,
/// int64's maximum stands for all larger values.
[[nodiscard]] ClassRange range_of(DType dtype, std::span<const std::byte> bytes);

/// The integers in `bytes`, of dtype `dtype`. A uint64 above int64's maximum becomes negative. Throws ArgumentError if
/// the dtype is not an integer.
[[nodiscard]] std::vector<std::int64_t> integers_of(DType dtype, std::span<const std::byte> bytes);

}  // namespace mn::data
