/// Changes of normalized images.
#pragma once

#include <span>

#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>
#include <mn/image/mix.hpp>

namespace mn::data {

/// Random erasing: the region of size × size pixels becomes 0.
void erase_part(const Region& region, int size, PixelLayout layout, std::span<float> image);

/// Pixels in memory, three values each.
struct FloatShape {
  int width;
  int height;
  PixelLayout layout;
};

/// Mixup and CutMix: `out` becomes `own`, mixed with its partner. out is neither of the two.
void mix_image(const Mix& mix, const FloatShape& shape, const float* own, const float* partner, float* out);

}  // namespace mn::data
