/// Random bytes that cannot be guessed, for keys, nonces and names in shared places.
#pragma once

#include <cstddef>
#include <span>

namespace mn {

/// Fills `bytes`, 256 at most, from the kernel's generator (getrandom(2)). Blocks only while the host is booting.
/// 0, or errno if the kernel gives none.
[[nodiscard]] int fill_with_random(std::span<std::byte> bytes) noexcept;
/// The same; throws Error.
void draw_random(std::span<std::byte> bytes);

}  // namespace mn
