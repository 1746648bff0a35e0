/// Random bytes that cannot be guessed, for keys and nonces.
#pragma once

#include <cstddef>
#include <span>

namespace mn {

/// Fills `bytes`, 256 at most, from the kernel's generator (getrandom(2)). Blocks only while the host is booting.
/// Throws Error if the kernel gives none.
void draw_random(std::span<std::byte> bytes);

}  // namespace mn
