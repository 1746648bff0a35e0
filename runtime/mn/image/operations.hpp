/// Changes of a whole image: its colors, its sharpness, its geometry. RandAugment and color jitter are lists of
/// operations.
#pragma once

#include <cstdint>

#include <mn/image/image.hpp>
#include <mn/image/warp.hpp>

namespace mn::data {

/// The kind of change, with the meaning of `amount`. A factor of 1 changes no pixel.
enum class OperationKind : std::uint8_t {
  kIdentity,
  kShearX,      ///< each row moves left by amount × its distance from the upper edge
  kShearY,      ///< each column moves up by amount × its distance from the left edge
  kTranslateX,  ///< to the right, in pixels
  kTranslateY,  ///< down, in pixels
  kRotate,      ///< counterclockwise around the center, in degrees
  kBrightness,  ///< factor
  kSaturation,  ///< factor; 0: gray
  kContrast,    ///< factor; 0: the mean gray
  kSharpness,   ///< factor; 0: blurred
  kPosterize,   ///< number of bits to keep of each value, 0 … 8
  kSolarize,    ///< least value to invert
  kAutoContrast,
  kEqualize,
  kHue,  ///< turns of the color wheel, −1/2 … 1/2
};
inline constexpr int kRandAugmentKinds = 14;  ///< RandAugment draws the first kinds

/// One change.
struct ImageOperation {
  OperationKind kind = OperationKind::kIdentity;
  double amount = 0;
};

/// Applies operations as torchvision.transforms.v2.functional does to uint8 tensors (affine and rotate: bilinear, zeros
/// around the image), to ±1 of 255: the order of rounding differs. Equal bits on every CPU. Keeps its memory; one
/// thread at a time.
class ImageOperator {
 public:
  void apply(const ImageOperation& operation, Image& image);

 private:
  void warp(const Affine& source, Image& image);

  Warper warper_;
  Image changed_;
};

}  // namespace mn::data
