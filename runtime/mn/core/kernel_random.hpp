/// Draws unpredictable random bytes, for keys, nonces and names in shared folders.
#pragma once

#include <cstddef>
#include <span>

namespace mn {

/// Fills `bytes`, at most 256 of them, from the kernel's random generator (getrandom(2)). Returns 0, or errno if the
/// kernel fails. Blocks only while the host boots.
[[nodiscard]] int fill_with_random(std::span<std::byte> bytes) noexcept;
/// Does the same as fill_with_random(), but throws Error if the kernel fails.
void draw_random(std::span<std::byte> bytes);

}  // namespace mn
