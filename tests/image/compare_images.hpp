/// Images and parts of them, compared.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <random>

#include <mn/image/image.hpp>

namespace mn::data {

inline Region random_region(std::mt19937& generator, int width, int height) {
  const auto below = [&](int n) { return static_cast<int>(generator() % static_cast<unsigned>(n)); };
  const int w = 1 + below(width);
  const int h = 1 + below(height);
  return {below(width - w + 1), below(height - h + 1), w, h};
}

/// Largest difference of `region` of `whole` and the equally large region of `part` at `box`.
inline int difference(const Image& whole, const Region& region, const Image& part, const Box& box) {
  int most = 0;
  for (int y = 0; y < region.height; ++y) {
    const auto* a = whole.row(region.y + y) + 3 * region.x;
    const auto* b = part.row(static_cast<int>(box.y) + y) + 3 * static_cast<int>(box.x);
    for (int i = 0; i < 3 * region.width; ++i) most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

/// The mean over all values; 255 for images of different sizes.
inline double mean_difference(const Image& a, const Image& b) {
  if (a.width != b.width || a.height != b.height) return 255;
  double sum = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(a.pixels[i] - b.pixels[i]);
  return sum / static_cast<double>(a.pixels.size());
}

}  // namespace mn::data
