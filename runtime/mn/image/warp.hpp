/// Affine maps of images.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/image/image.hpp>

namespace mn::data {

/// Where a pixel comes from: source = (xx·x + xy·y + x0, yx·x + yy·y + y0), in pixels from the image's center.
struct Affine {
  double xx = 1;
  double xy = 0;
  double x0 = 0;
  double yx = 0;
  double yy = 1;
  double y0 = 0;
};

/// Bilinear, with black around the image, as torchvision's affine and rotate of tensors. Keeps its memory; one thread
/// at a time.
class Warper {
 public:
  /// `out` gets the size of `in` and must be another image.
  void warp(const Image& in, const Affine& source, Image& out);

 private:
  void pad(const Image& in);

  std::vector<std::uint16_t>
      padded_;                      // (height + 3, width + 3, 4): black around the image, and room for one value more
  std::vector<int> offsets_;        // [pixel of a row] where the upper left of its four neighbors lies in padded_
  std::vector<float> right_;        // [pixel of a row] the share of its right neighbors
  std::vector<float> below_;        // [pixel of a row] the share of its lower neighbors
  std::vector<std::int32_t> wide_;  // a target row before it becomes bytes
};

}  // namespace mn::data
