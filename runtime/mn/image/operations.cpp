// Source: torchvision 0.26, torchvision/transforms/v2/_auto_augment.py and functional/_geometry.py.
#include <mn/image/operations.hpp>

#include <cmath>
#include <numbers>
#include <utility>

#include <mn/image/pixel_operations.hpp>

namespace mn::data {
namespace {

/// A shear keeps the upper left corner, not the center: x' = x + t·y of corners, written for centers.
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

void ImageOperator::warp(const Affine& source, Image& image) {
  warper_.warp(image, source, changed_);
  std::swap(image, changed_);
}

void ImageOperator::apply(const ImageOperation& operation, Image& image) {
  const double amount = operation.amount;
  switch (operation.kind) {
    case OperationKind::kIdentity:
      return;
    case OperationKind::kShearX:
      return warp(shear(amount, 0, image), image);
    case OperationKind::kShearY:
      return warp(shear(0, amount, image), image);
    case OperationKind::kTranslateX:
      return warp({.x0 = -amount}, image);
    case OperationKind::kTranslateY:
      return warp({.y0 = -amount}, image);
    case OperationKind::kRotate:
      return warp(rotation(amount), image);
    case OperationKind::kBrightness:
      return adjust_brightness(image, amount);
    case OperationKind::kSaturation:
      return adjust_saturation(image, amount);
    case OperationKind::kContrast:
      return adjust_contrast(image, amount);
    case OperationKind::kSharpness:
      adjust_sharpness(image, amount, changed_);
      return std::swap(image, changed_);
    case OperationKind::kPosterize:
      return posterize(image, static_cast<int>(amount));
    case OperationKind::kSolarize:
      return solarize(image, amount);
    case OperationKind::kAutoContrast:
      return autocontrast(image);
    case OperationKind::kEqualize:
      return equalize(image);
    case OperationKind::kHue:
      return adjust_hue(image, amount);
  }
}

}  // namespace mn::data
