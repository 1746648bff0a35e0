/// Encodes images as PNG, by libpng.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace mn::data {

/// Returns the bytes of a PNG file with 8 bits per value. `pixels` is (height, width, channels); 1 channel is gray, 3
/// are RGB, 4 are RGB and alpha. Throws ArgumentError if the sizes do not fit, and Error if libpng fails.
[[nodiscard]] std::string encode_png(std::span<const std::uint8_t> pixels, int width, int height, int channels);

}  // namespace mn::data
