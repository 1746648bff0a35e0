/// Values of class fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <mn/core/buffer.hpp>

namespace mn::data {

inline constexpr std::int64_t kMaxClasses = std::int64_t{1} << 31;  ///< larger numbers are something else

struct ClassRange {
  std::int64_t least = 0;
  std::int64_t most = -1;
  /// Whether all values are classes.
  [[nodiscard]] bool is_in(std::int64_t num_classes) const noexcept { return least >= 0 && most < num_classes; }
  /// The value to name in an error if is_in() is false.
  [[nodiscard]] std::int64_t outlier() const noexcept { return least < 0 ? least : most; }
};

/// The smallest and the largest integer of `bytes`; ClassRange() if empty. Values beyond int64 count as its maximum.
[[nodiscard]] ClassRange range_of(DType dtype, std::span<const std::byte> bytes);

}  // namespace mn::data
