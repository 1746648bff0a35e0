/// Values of class fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <mn/core/buffer.hpp>

namespace mn::data {

inline constexpr std::int64_t kMaxClasses = std::int64_t{1} << 31;  ///< larger numbers are something else

struct ClassRange {
  std::int64_t least = 0;
  std::int64_t most = -1;
  std::uint64_t largest = 0;  ///< `most`, also beyond int64; only if it is not negative
  /// Whether all values are classes.
  [[nodiscard]] bool is_in(std::int64_t num_classes) const noexcept { return least >= 0 && most < num_classes; }
  /// The value to name in an error if is_in() is false.
  [[nodiscard]] std::string outlier() const { return least < 0 ? std::to_string(least) : std::to_string(largest); }
};

/// The smallest and the largest integer of `bytes`; ClassRange() if empty. Above int64 `least` and
/// `most` are its maximum.
[[nodiscard]] ClassRange range_of(DType dtype, std::span<const std::byte> bytes);

}  // namespace mn::data
