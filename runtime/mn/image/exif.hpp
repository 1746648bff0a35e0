/// The orientation written by a camera (Exif 2.3, tag 0x0112).
#pragma once

#include <cstdint>
#include <span>

namespace mn::data {

/// Steps from the upright image to the stored image: transpose first, then mirror.
struct Orientation {
  bool transposed = false;  ///< rows become columns
  bool mirrored_x = false;  ///< whether the stored image is mirrored
  bool mirrored_y = false;
};

/// From the payload of a JPEG's APP1 marker; 1 (upright as stored) … 8; 1 if missing or malformed.
[[nodiscard]] int read_exif_orientation(std::span<const std::uint8_t> app1) noexcept;
/// The orientation in a TIFF structure, such as a PNG's eXIf chunk; 1 if missing or malformed.
[[nodiscard]] int read_tiff_orientation(std::span<const std::uint8_t> bytes) noexcept;

/// value 1 … 8.
[[nodiscard]] Orientation orientation_of(int value) noexcept;

}  // namespace mn::data
