/// The orientation that a camera wrote into an image (Exif 2.3, tag 0x0112).
#pragma once

#include <cstdint>
#include <span>

namespace mn::data {

/// How the upright image becomes the stored one: transposed first, then mirrored.
struct Orientation {
  bool transposed = false;  ///< rows become columns
  bool mirrored_x = false;  ///< whether the stored image is mirrored
  bool mirrored_y = false;
};

/// From the payload of a JPEG's APP1 marker; 1 (upright as stored) … 8. 1 if it is missing or malformed.
[[nodiscard]] int read_exif_orientation(std::span<const std::uint8_t> app1) noexcept;
/// The same from the TIFF structure in it, which is all of a PNG's eXIf chunk.
[[nodiscard]] int read_tiff_orientation(std::span<const std::uint8_t> bytes) noexcept;

/// value 1 … 8.
[[nodiscard]] Orientation orientation_of(int value) noexcept;

}  // namespace mn::data
