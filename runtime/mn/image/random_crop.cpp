#include <mn/image/random_crop.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <utility>

#include <mn/image/resize.hpp>

namespace mn::data {
namespace {

constexpr int kTries = 10;  // as in torchvision; after the last try the center is cut

/// The largest centered part of the image with an allowed ratio.
Region largest_center(int width, int height, const CropOptions& options) {
  const double ratio = double(width) / height;
  int w = width;
  int h = height;
  if (ratio < options.min_ratio) h = std::clamp(static_cast<int>(std::lround(w / options.min_ratio)), 1, height);
  if (ratio > options.max_ratio) w = std::clamp(static_cast<int>(std::lround(h * options.max_ratio)), 1, width);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

Region random_part(int width, int height, const CropOptions& options, SampleRandom& random) {
  const double area = double(width) * height;
  for (int i = 0; i < kTries; ++i) {
    const double target = area * random.uniform(options.min_area, options.max_area);
    const double ratio = std::exp(random.uniform(std::log(options.min_ratio), std::log(options.max_ratio)));
    const int w = static_cast<int>(std::lround(std::sqrt(target * ratio)));
    const int h = static_cast<int>(std::lround(std::sqrt(target / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int x = random.below(width - w + 1);
    const int y = random.below(height - h + 1);
    return {x, y, w, h};
  }
  return largest_center(width, height, options);
}

/// The image's size after resizing. The short side becomes options.resize, and the long side keeps the ratio; in the
/// fixed modes both sides become options.resize.
std::pair<int, int> resized_size(int width, int height, const CropOptions& options) {
  const int resize = options.resize;
  if (options.mode != CropMode::kCenter) return {resize, resize};
  const auto longer = [resize](int a, int b) { return static_cast<int>(std::int64_t{resize} * a / b); };
  return width <= height ? std::pair(resize, longer(height, width)) : std::pair(longer(width, height), resize);
}

/// The region whose pixels influence `box` if the whole image is first shrunk by the factors scale_x and scale_y, and
/// `box` is then cut out. `box` is in the original image's coordinates.
Region surroundings(const Box& box, double scale_x, double scale_y, int radius, int width, int height) {
  const double radius_x = radius * std::max(scale_x, 1.0) + 1;
  const double radius_y = radius * std::max(scale_y, 1.0) + 1;
  const int x = std::max(static_cast<int>(std::floor(box.x - radius_x)), 0);
  const int y = std::max(static_cast<int>(std::floor(box.y - radius_y)), 0);
  const int right = std::min(static_cast<int>(std::ceil(box.x + box.width + radius_x)), width);
  const int bottom = std::min(static_cast<int>(std::ceil(box.y + box.height + radius_y)), height);
  return {x, y, right - x, bottom - y};
}

Crop crop_of_resized(int width, int height, const CropOptions& options, SampleRandom& random) {
  const auto [resized_width, resized_height] = resized_size(width, height, options);
  const bool is_random = options.mode == CropMode::kRandomFixed;
  // nearbyint() rounds halves to even, as Python's round() does.
  const auto offset_in = [&](int margin) {
    return is_random ? random.below(margin + 1) : static_cast<int>(std::nearbyint(margin / 2.0));
  };
  const int x = offset_in(resized_width - options.size);
  const int y = offset_in(resized_height - options.size);
  const double scale_x = double(width) / resized_width;
  const double scale_y = double(height) / resized_height;
  Crop crop;
  crop.in_resized = {x, y, options.size, options.size};
  crop.box = {x * scale_x, y * scale_y, options.size * scale_x, options.size * scale_y};
  crop.readable = surroundings(crop.box, scale_x, scale_y, filter_radius(options.interpolation), width, height);
  return crop;
}

}  // namespace

Crop choose_crop(int width, int height, const CropOptions& options, SampleRandom& random) {
  Crop crop;
  if (options.mode == CropMode::kRandomResized) {
    crop.readable = random_part(width, height, options, random);
    crop.box = to_box(crop.readable);
  } else {
    crop = crop_of_resized(width, height, options, random);
  }
  const bool is_random = options.mode == CropMode::kRandomResized || options.mode == CropMode::kRandomFixed;
  assert(crop.readable.x >= 0 && crop.readable.x + crop.readable.width <= width);
  assert(crop.readable.y >= 0 && crop.readable.y + crop.readable.height <= height);
  crop.flip = is_random && options.flip && random.below(2) == 1;
  return crop;
}

}  // namespace mn::data
