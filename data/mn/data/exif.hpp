/// The orientation that a camera wrote into a JPEG (Exif 2.3, tag 0x0112).
#pragma once

#include <cstdint>
#include <span>

namespace mn::data {

/// How the stored picture becomes the upright one: transposed first, then mirrored.
struct Orientation {
  bool transposed = false;  ///< rows and columns change places
  bool mirrored_x = false;  ///< of the stored picture
  bool mirrored_y = false;
};

/// From the payload of an APP1 marker; 1 (upright as stored) … 8. 1 if there is none or if it is malformed.
[[nodiscard]] int read_exif_orientation(std::span<const std::uint8_t> app1) noexcept;

/// value 1 … 8.
[[nodiscard]] Orientation orientation_of(int value) noexcept;

}  // namespace mn::data
