/// Affine maps of images.
///
/// Each target pixel blends the four source pixels around its source point.
///
/// (1) The source lies in a frame of black pixels, and every point is clamped into the frame: no pixel needs a test.
/// (2) Sums run in a fixed order, in float32 without fused multiply-add: equal bits on every CPU.
///
/// Cost: one copy of the image; 12 multiplications for each target pixel, of four lanes.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/image/image.hpp>

namespace mn::data {

/// The source point of a pixel: source = (xx·x + xy·y + x0, yx·x + yy·y + y0), in pixels from the image's center.
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
  /// `out` gets the size of `in`; `out` must not be `in`.
  void warp(const Image& in, const Affine& source, Image& out);

 private:
  void pad(const Image& in);

  std::vector<std::uint16_t>
      padded_;                      // (height + 3, width + 3, 4): black around the image, and room for one value more
  std::vector<int> offsets_;        // [pixel of a row] index of the upper left neighbor in padded_
  std::vector<float> right_;        // [pixel of a row] share of the right neighbors
  std::vector<float> below_;        // [pixel of a row] share of the lower neighbors
  std::vector<std::int32_t> wide_;  // a target row before rounding to bytes
};

}  // namespace mn::data
