#include <mn/image/mix.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

#include <mn/core/random.hpp>
#include <mn/image/sample_random.hpp>

namespace mn::data {
namespace {

constexpr std::uint64_t kMixStream = 0x6D69785F70616972U;  // arbitrary; makes the keys differ from augmentation's

double draw_normal(SampleRandom& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi * random.uniform(0, 1));
}

/// Draws from Gamma(shape, 1). Returns the logarithm, because the number can be too small for a double.
double draw_log_gamma(double shape, SampleRandom& random) {
  if (shape < 1) return draw_log_gamma(shape + 1, random) + std::log(1 - random.uniform(0, 1)) / shape;
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = draw_normal(random);
    const double v = 1 + c * x;
    if (v <= 0) continue;
    const double log_v = 3 * std::log(v);
    if (std::log(1 - random.uniform(0, 1)) < x * x / 2 + d * (1 - std::exp(log_v) + log_v)) return std::log(d) + log_v;
  }
}

double draw_beta(double alpha, SampleRandom& random) {
  const double a = draw_log_gamma(alpha, random);
  const double b = draw_log_gamma(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

/// Draws a region around a random point, of 1 − share of the image's area, and cuts it off at the image's edges.
Region choose_pasted(double share, int width, int height, SampleRandom& random) {
  const int x = random.below(width);
  const int y = random.below(height);
  const double radius = 0.5 * std::sqrt(1 - share);
  const int half_width = static_cast<int>(radius * width);
  const int half_height = static_cast<int>(radius * height);
  const int left = std::max(x - half_width, 0);
  const int top = std::max(y - half_height, 0);
  return {left, top, std::min(x + half_width, width) - left, std::min(y + half_height, height) - top};
}

}  // namespace

Mix choose_mix(const MixOptions& options, int width, int height, std::uint64_t seed, std::int64_t epoch,
               std::int64_t index) {
  SampleRandom random(mix_bits(seed ^ kMixStream), epoch, index);
  const bool cuts = options.cutmix > 0 && (options.mixup == 0 || random.below(2) == 1);
  const double alpha = cuts ? options.cutmix : options.mixup;
  if (alpha == 0) return {};
  Mix mix;
  mix.share = draw_beta(alpha, random);
  if (!cuts) return mix;
  mix.pasted = choose_pasted(mix.share, width, height, random);
  assert(mix.pasted.x + mix.pasted.width <= width && mix.pasted.y + mix.pasted.height <= height);
  mix.share = 1 - double(mix.pasted.width) * mix.pasted.height / (double(width) * height);
  return mix;
}

void erase_part(const Region& region, int size, PixelLayout layout, std::span<float> image) {
  const bool planes = layout == PixelLayout::kNchw;
  const std::ptrdiff_t values = planes ? 1 : 3;  // neighboring values of one pixel
  for (std::ptrdiff_t plane = 0; plane < (planes ? 3 : 1); ++plane) {
    for (int y = region.y; y < region.y + region.height; ++y) {
      const std::ptrdiff_t first = ((plane * size + y) * size + region.x) * values;
      std::fill_n(image.begin() + first, region.width * values, 0.0F);
    }
  }
}

}  // namespace mn::data
