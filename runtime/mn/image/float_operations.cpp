#include <mn/image/float_operations.hpp>

#include <algorithm>
#include <cassert>

#include <mn/image/simd.hpp>

namespace mn::data {
namespace {

MN_SIMD void blend_floats(const float* own, float own_share, const float* partner, float rest, std::size_t count,
                          float* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = partner[i] * rest + own[i] * own_share;
}

/// Calls run(first, count) for each run of values that a region covers.
template <class Run>
void for_each_run(const Region& region, const FloatShape& shape, const Run& run) {
  const auto width = static_cast<std::size_t>(shape.width);
  const std::size_t plane = width * shape.height;
  const bool planes = shape.layout == PixelLayout::kNchw;
  for (std::size_t c = 0; c < (planes ? 3 : 1); ++c) {
    for (int y = region.y; y < region.y + region.height; ++y) {
      const std::size_t first = static_cast<std::size_t>(y) * width + region.x;
      planes ? run(c * plane + first, static_cast<std::size_t>(region.width))
             : run(3 * first, std::size_t{3} * region.width);
    }
  }
}

}  // namespace

void erase_part(const Region& region, int size, PixelLayout layout, std::span<float> image) {
  for_each_run(region, {size, size, layout},
               [&](std::size_t first, std::size_t count) { std::fill_n(image.data() + first, count, 0.0F); });
}

void mix_image(const Mix& mix, const FloatShape& shape, const float* own, const float* partner, float* out) {
  const std::size_t count = std::size_t{3} * shape.width * shape.height;
  assert(out != own && out != partner);
  if (mix.pasted.width > 0 && mix.pasted.height > 0) {
    std::copy_n(own, count, out);
    for_each_run(mix.pasted, shape,
                 [&](std::size_t first, std::size_t n) { std::copy_n(partner + first, n, out + first); });
  } else {
    blend_floats(own, static_cast<float>(mix.share), partner, static_cast<float>(1 - mix.share), count, out);
  }
}

}  // namespace mn::data
