/// The largest magnitude of floating-point numbers, by their bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mn {

/// The largest bit pattern, without the sign bit, of aligned numbers of `bytes_each` (2, 4 or 8) bytes. The bit
/// patterns of floating-point numbers ascend with their magnitude; infinity follows, then NaN.
[[nodiscard]] std::uint64_t largest_magnitude(std::span<const std::byte> numbers, std::size_t bytes_each);

}  // namespace mn
