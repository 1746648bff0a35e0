/// Resampling of images.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/image/image.hpp>

namespace mn::data {

/// Bilinear with antialiasing (a triangle as wide as a target pixel, at least as wide as a source pixel): what Pillow's
/// resize(box=…) and torchvision's antialias=True compute, to ±1 of 255. The same bits on every CPU.
/// Keeps its memory; one thread at a time.
class Resizer {
 public:
  /// The part `box` of `in` becomes the whole of `out`, width × height pixels, mirrored left to right with `flip`.
  /// Only pixels of `readable` are used: the box itself cuts before resizing, a larger one resizes before cutting.
  void resize(const Image& in, const Box& box, const Region& readable, int width, int height, bool flip, Image& out);

 private:
  /// For each target pixel, which source pixels count how much.
  struct Taps {
    std::vector<int> first;      // [size]
    std::vector<int> count;      // [size]
    std::vector<float> weights;  // [size, most], 0 beyond count
    int most = 0;
    void compute(double start, double length, int readable_first, int readable_last, int size);
  };

  Taps columns_;
  Taps rows_;
  std::vector<float> line_;         // one target row before its columns are resampled
  std::vector<std::int32_t> wide_;  // the same row afterwards, before it becomes bytes
};

}  // namespace mn::data
