/// Resampling of images.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>

namespace mn::data {

/// Pixels on each side of a point that count in a filter, in source pixels where the image grows, else in target
/// pixels.
[[nodiscard]] constexpr int filter_radius(Interpolation filter) { return filter == Interpolation::kBicubic ? 2 : 1; }

/// With antialiasing: filters are as wide as target pixels, but at least as wide as source pixels. What Pillow's
/// resize(box=…) and torchvision's antialias=True compute, to ±1 of 255; bicubic ones round between columns and rows,
/// which this does not. The same bits on every CPU. Keeps its memory; one thread at a time.
class Resizer {
 public:
  /// The part `box` of `in` becomes the whole of `out`, width × height pixels, mirrored left to right with `flip`.
  /// Only pixels of `readable` are used: the box itself cuts before resizing, a larger one resizes before cutting.
  void resize(const Image& in, const Box& box, const Region& readable, int width, int height, bool flip, Image& out,
              Interpolation filter = Interpolation::kBilinear);

 private:
  /// For each target pixel, which source pixels count how much.
  struct Taps {
    std::vector<int> first;      // [size]
    std::vector<int> count;      // [size]
    std::vector<float> weights;  // [size, most], 0 beyond count
    int most = 0;
    void compute(double start, double length, int readable_first, int readable_last, int size, Interpolation filter);
  };

  Taps columns_;
  Taps rows_;
  std::vector<float> line_;         // one target row before its columns are resampled
  std::vector<std::int32_t> wide_;  // the same row afterwards, before it becomes bytes
};

}  // namespace mn::data
