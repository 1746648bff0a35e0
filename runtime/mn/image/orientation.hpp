/// Turns a stored image, whose camera was held sideways or upside down, into the upright image.
#pragma once

#include <mn/image/image.hpp>

namespace mn::data {

/// Steps that turn the upright image into the stored image: transpose first, then mirror.
struct Orientation {
  bool transposed = false;  ///< rows become columns
  bool mirrored_x = false;  ///< whether the stored image is mirrored
  bool mirrored_y = false;
};

/// `value`: the orientation, 1 to 8 (Exif 2.3, tag 0x0112).
[[nodiscard]] Orientation orientation_of(int value) noexcept;

/// Converts a region of the upright image to the stored image, which has width × height pixels.
[[nodiscard]] Region stored_region(Region region, const Orientation& how, int width, int height);
/// The inverse of stored_region(), for a box in a decoded image.
[[nodiscard]] Box upright_box(Box box, const Orientation& how, int width, int height);

void make_upright(const Image& stored, const Orientation& how, Image& out);

}  // namespace mn::data
