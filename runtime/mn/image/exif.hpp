/// Reads the orientation that a camera writes into an image (Exif 2.3, tag 0x0112).
#pragma once

#include <cstdint>
#include <span>

namespace mn::data {

/// Reads the orientation, 1 to 8, from a JPEG's APP1 payload. Returns 1 (upright) if it is missing or malformed.
[[nodiscard]] int read_exif_orientation(std::span<const std::uint8_t> app1) noexcept;
/// Reads the orientation from a TIFF structure, such as a PNG's eXIf chunk. Returns 1 if it is missing or malformed.
[[nodiscard]] int read_tiff_orientation(std::span<const std::uint8_t> bytes) noexcept;

}  // namespace mn::data
