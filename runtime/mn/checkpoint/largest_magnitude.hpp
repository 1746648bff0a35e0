/// One pass over floating-point numbers of any kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mn {

/// The largest of numbers of `bytes_each` (2, 4 or 8) bytes, which are aligned, without their first bit. In the bits of
/// floating-point numbers larger magnitudes are larger, then comes infinity, then NaN.
[[nodiscard]] std::uint64_t largest_magnitude(std::span<const std::byte> numbers, std::size_t bytes_each);

}  // namespace mn
