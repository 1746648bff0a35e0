/// Operations that change a whole image: its colors, its sharpness or its geometry.
#pragma once

#include <cstdint>
#include <vector>

#include <mn/image/image.hpp>

namespace mn::data {

/// The target pixel (x, y) shows the point (xx·x + xy·y + x0, yx·x + yy·y + y0) of the source image. Coordinates are in
/// pixels from the image's center.
struct Affine {
  double xx = 1;
  double xy = 0;
  double x0 = 0;
  double yx = 0;
  double yy = 1;
  double y0 = 0;
};

/// The comments tell what the `amount` of an ImageOperation means. A factor of 1 changes no pixel.
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
  kHue,  ///< turns of the color wheel, from −1/2 to 1/2
};
inline constexpr int kRandAugmentKinds = 14;  ///< RandAugment draws from this many kinds, the first ones

struct ImageOperation {
  OperationKind kind = OperationKind::kIdentity;
  double amount = 0;
};

/// Applies operations as torchvision.transforms.v2.functional does to uint8 tensors (affine and rotate with bilinear
/// interpolation and zeros around the image). Values may differ by 1 of 255, because the order of rounding differs.
/// Every CPU gives equal bits. Reuses its memory. For one thread at a time.
class ImageOperator {
 public:
  void apply(const ImageOperation& operation, Image& image);

 private:
  void warp(const Affine& source, Image& image);
  void pad(const Image& in);

  std::vector<std::uint16_t> padded_;  // (height + 3, width + 3, 4): the framed image, and room for one more value
  std::vector<int> offsets_;           // [pixel of a row] index of the upper left neighbor in padded_
  std::vector<float> right_;           // [pixel of a row] share of the right neighbors
  std::vector<float> below_;           // [pixel of a row] share of the lower neighbors
  std::vector<std::int32_t> wide_;     // a target row before rounding to bytes
  Image changed_;
};

}  // namespace mn::data
