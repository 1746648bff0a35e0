/// Bilinear or bicubic resampling with antialiasing, in two passes. For each target row, the vertical pass blends the
/// source rows whose weight is not 0 into a line, and the horizontal pass resamples the line.
///
///   weight of source pixel s for target t:  filter((s + ½ − center(t)) / stretch),  normalized to a sum of 1
///   center(t) = start + (t + ½) · scale,  scale = source length / target length,  stretch = max(scale, 1)
///
/// (1) Sums run in one order on every CPU, in float32 without fused multiply-add, so every CPU gives equal bits.
/// (2) No pixel outside of `readable` has a weight. Beyond a line's end, padding may be read with weight 0.
/// (3) The vertical pass comes first, so reads are contiguous and the blended line stays in the L1 cache.
///
/// Cost for each target row and channel: readable width × taps multiplications in the vertical pass, and target width ×
/// taps in the horizontal pass. Taps are the source pixels that have a weight in a target pixel, about 2 ·
/// filter_radius · stretch.
/// Sources: Pillow's src/libImaging/Resample.c (ImagingResample), the model of torchvision's antialias=True; Keys,
/// "Cubic convolution interpolation for digital image processing", 1981.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>

namespace mn::data {

/// In source pixels if the image grows, else in target pixels.
[[nodiscard]] constexpr int filter_radius(Interpolation filter) { return filter == Interpolation::kBicubic ? 2 : 1; }

/// Results equal those of Pillow's resize(box=…) and torchvision's antialias=True to ±1 of 255. Pillow and torchvision
/// also round bicubic values between the two passes; Resizer does not. Reuses its memory. For one thread at a time.
class Resizer {
 public:
  /// Resamples the part `box` of `in` to width × height pixels, mirrored left to right if `flip` is true, into `out`.
  /// Only pixels in `readable` are used: if it equals the box, the image is cut before resizing; if it is larger, the
  /// image is resized before cutting.
  void resize(const Image& in, const Box& box, const Region& readable, int width, int height, bool flip, Image& out,
              Interpolation filter = Interpolation::kBilinear);

 private:
  /// For each target row or column, the source pixels that have a weight in it, and these weights.
  struct Taps {
    std::vector<int> first;      // [size]
    std::vector<int> count;      // [size]
    std::vector<float> weights;  // [size, most], 0 from count on
    int most = 0;
    void compute(double start, double length, int readable_first, int readable_last, int size, Interpolation filter);
  };

  Taps columns_;
  Taps rows_;
  std::vector<float> line_;         // a target row before resampling of the columns
  std::vector<std::int32_t> wide_;  // a target row after resampling, before rounding to bytes
};

}  // namespace mn::data
