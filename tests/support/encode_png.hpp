/// PNGs of the kinds that are met among photos.
#pragma once

#include <cstddef>
#include <vector>

#include <mn/image/image.hpp>

namespace mn::test {

enum class PngKind {
  kRgb,
  kRgba,     ///< opaque on the left, ever more transparent to the right
  kPalette,  ///< of 216 colors, the nearest one for each pixel
  kGray,
  kRgb16,  ///< 16 bits for each value
};

[[nodiscard]] std::vector<std::byte> encode_png(const data::Image& image, PngKind kind);

}  // namespace mn::test
