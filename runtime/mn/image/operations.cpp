// Applies operations to images. Affine maps interpolate bilinearly, with black around the image, as torchvision's
// affine and rotate do for tensors.
//
// (1) The source image is surrounded by a frame of black pixels, and every point is clamped to the framed image, so no
//     pixel needs a test.
// (2) Sums run in a fixed order, in float32 without fused multiply-add, so every CPU gives equal bits.
//
// Source of the operations: torchvision 0.26, torchvision/transforms/v2/_auto_augment.py and functional/_geometry.py.
#include <mn/image/operations.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <utility>

#include <mn/image/pixel_operations.hpp>
#include <mn/image/simd.hpp>

namespace mn::data {
namespace {

using Words4 __attribute__((vector_size(8), aligned(2), may_alias)) = std::uint16_t;
using WarpFloat4 __attribute__((vector_size(16))) = float;
using WarpInt4 __attribute__((vector_size(16), aligned(4), may_alias)) = std::int32_t;

/// Which points of the framed source image a target row shows. Pixel i shows x = x_start + i · x_step, clamped to 0 …
/// x_most; likewise for y.
struct RowPlaces {
  float x_start, x_step, x_most;
  float y_start, y_step, y_most;
  int stride;  // number of values in a row of the frame
};

MN_SIMD void find_places(const RowPlaces& row, int width, int* __restrict offsets, float* __restrict right,
                         float* __restrict below) {
  for (int i = 0; i < width; ++i) {
    const float x = std::min(std::max(row.x_start + static_cast<float>(i) * row.x_step, 0.0F), row.x_most);
    const float y = std::min(std::max(row.y_start + static_cast<float>(i) * row.y_step, 0.0F), row.y_most);
    const int column = static_cast<int>(x);
    const int line = static_cast<int>(y);
    offsets[i] = line * row.stride + 4 * column;
    right[i] = x - static_cast<float>(column);
    below[i] = y - static_cast<float>(line);
  }
}

MN_SIMD void blend_neighbors(const std::uint16_t* frame, int stride, int width, const int* offsets, const float* right,
                             const float* below, std::int32_t* out) {
  const auto load = [](const std::uint16_t* at) __attribute__((always_inline)) {
    return __builtin_convertvector(__builtin_convertvector(*reinterpret_cast<const Words4*>(at), WarpInt4), WarpFloat4);
  };
  for (int i = 0; i < width; ++i) {
    const std::uint16_t* at = frame + offsets[i];
    const WarpFloat4 upper_left = load(at);
    const WarpFloat4 lower_left = load(at + stride);
    const WarpFloat4 upper = upper_left + (load(at + 4) - upper_left) * right[i];
    const WarpFloat4 lower = lower_left + (load(at + stride + 4) - lower_left) * right[i];
    // A pixel has three values; the fourth is written to the next pixel, which overwrites it later.
    *reinterpret_cast<WarpInt4*>(out + 3 * i) =
        __builtin_convertvector(upper + (lower - upper) * below[i] + 0.5F, WarpInt4);
  }
}

MN_SIMD void to_bytes(const std::int32_t* values, int count, std::uint8_t* __restrict out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(values[i]);
}

/// A shear x' = x + t·y that leaves the upper left corner in place. An Affine counts from the image's center, so the
/// map also needs a shift.
Affine shear(double horizontal, double vertical, const Image& image) {
  return {.xx = 1,
          .xy = horizontal,
          .x0 = horizontal * image.height / 2,
          .yx = vertical,
          .yy = 1,
          .y0 = vertical * image.width / 2};
}

Affine rotation(double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  return {.xx = c, .xy = -s, .x0 = 0, .yx = s, .yy = c, .y0 = 0};
}

}  // namespace

void ImageOperator::pad(const Image& in) {
  const std::size_t stride = std::size_t{4} * (in.width + 3);
  padded_.assign(stride * (in.height + 3), 0);
  for (int y = 0; y < in.height; ++y) {
    const std::uint8_t* from = in.row(y);
    std::uint16_t* to = padded_.data() + stride * (y + 1) + 4;
    for (int x = 0; x < in.width; ++x, from += 3, to += 4) {
      to[0] = from[0];
      to[1] = from[1];
      to[2] = from[2];
    }
  }
}

void ImageOperator::warp(const Affine& source, Image& image) {
  pad(image);
  changed_.resize(image.width, image.height);
  offsets_.resize(image.width);
  right_.resize(image.width);
  below_.resize(image.width);
  wide_.resize(std::size_t{3} * image.width + 1);
  const double center_x = (image.width - 1) / 2.0;
  const double center_y = (image.height - 1) / 2.0;
  const int stride = 4 * (image.width + 3);
  for (int y = 0; y < image.height; ++y) {
    const double x_first = source.xx * -center_x + source.xy * (y - center_y) + source.x0;
    const double y_first = source.yx * -center_x + source.yy * (y - center_y) + source.y0;
    const RowPlaces row = {.x_start = static_cast<float>(x_first + center_x + 1),  // 1 for the frame
                           .x_step = static_cast<float>(source.xx),
                           .x_most = static_cast<float>(image.width + 1),
                           .y_start = static_cast<float>(y_first + center_y + 1),
                           .y_step = static_cast<float>(source.yx),
                           .y_most = static_cast<float>(image.height + 1),
                           .stride = stride};
    find_places(row, image.width, offsets_.data(), right_.data(), below_.data());
    assert(std::ranges::all_of(offsets_, [&](int at) {  // all points lie in the frame
      return at >= 0 && static_cast<std::size_t>(at) + stride + 8 <= padded_.size();
    }));
    blend_neighbors(padded_.data(), stride, image.width, offsets_.data(), right_.data(), below_.data(), wide_.data());
    to_bytes(wide_.data(), 3 * image.width, changed_.row(y));
  }
  std::swap(image, changed_);
}

void ImageOperator::apply(const ImageOperation& operation, Image& image) {
  using enum OperationKind;
  const auto [kind, amount] = operation;
  if (kind == kShearX) return warp(shear(amount, 0, image), image);
  if (kind == kShearY) return warp(shear(0, amount, image), image);
  if (kind == kTranslateX) return warp({.x0 = -amount}, image);
  if (kind == kTranslateY) return warp({.y0 = -amount}, image);
  if (kind == kRotate) return warp(rotation(amount), image);
  if (kind == kBrightness) return adjust_brightness(image, amount);
  if (kind == kSaturation) return adjust_saturation(image, amount);
  if (kind == kContrast) return adjust_contrast(image, amount);
  if (kind == kPosterize) return posterize(image, static_cast<int>(amount));
  if (kind == kSolarize) return solarize(image, amount);
  if (kind == kAutoContrast) return autocontrast(image);
  if (kind == kEqualize) return equalize(image);
  if (kind == kHue) return adjust_hue(image, amount);
  if (kind != kSharpness) return;  // kIdentity
  adjust_sharpness(image, amount, changed_);
  std::swap(image, changed_);
}

}  // namespace mn::data
