/// Options for making a network's input from an image.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace mn::data {

/// Which part of an image becomes the input.
enum class CropMode : std::uint8_t {
  kRandomResized,  ///< a random part of random area and ratio, resized (Szegedy et al. 2014, arXiv:1409.4842)
  kCenter,         ///< the short side resized to `resize`, then the center
  kRandomFixed,    ///< everything resized to resize × resize, then a random part (ChainerMN's training)
  kCenterFixed,    ///< everything resized to resize × resize, then the center (ChainerMN's validation)
};

/// The filter by which an image is resized.
enum class Interpolation : std::uint8_t {
  kBilinear,  ///< a triangle filter
  kBicubic,   ///< Keys's cubic filter with a = −1/2, as in Pillow; gives sharper images
};

/// Options for the choice of the part of an image.
struct CropOptions {
  CropMode mode = CropMode::kRandomResized;                ///< which part
  int size = 224;                                          ///< height and width of the result
  int resize = 256;                                        ///< at least `size`; not for kRandomResized
  double min_area = 0.08;                                  ///< smallest part of the image's area; kRandomResized
  double max_area = 1;                                     ///< largest part of the image's area; kRandomResized
  double min_ratio = 3.0 / 4;                              ///< smallest width over height; kRandomResized
  double max_ratio = 4.0 / 3;                              ///< largest width over height; kRandomResized
  bool flip = true;                                        ///< mirrors half of the images left to right; random modes
  Interpolation interpolation = Interpolation::kBilinear;  ///< interpolation of the resizing
};

/// The usual CropOptions::resize for validation with a crop of `size` pixels, in the ratio of 256 to 224 pixels.
[[nodiscard]] constexpr int usual_resize(int size) { return (size * 256 + 112) / 224; }

/// Random changes of color, in random order. The factors for brightness, contrast and saturation are drawn from [max(0,
/// 1 − x), 1 + x], where x is the member. The hue is turned by a number from [−hue, hue].
struct ColorJitter {
  double brightness = 0;  ///< 0: no change
  double contrast = 0;    ///< 0: no change
  double saturation = 0;  ///< 0: no change
  double hue = 0;         ///< at most 1/2
  /// True if all members are equal.
  bool operator==(const ColorJitter&) const = default;
};

inline constexpr int kMaxMagnitude = 30;          ///< magnitude of RandAugment's strongest operations
inline constexpr double kLeastErased = 0.02;      ///< random erasing's smallest part of the image's area
inline constexpr double kMaxErased = 0.33;        ///< random erasing's largest part of the image's area
inline constexpr double kLeastErasedRatio = 0.3;  ///< least height / width of the erased part; greatest: its inverse

/// Random changes of an image after the crop, applied in the order of the members. By default there are none.
struct AugmentOptions {
  int randaugment = 0;      ///< number of RandAugment's operations applied to each image
  int magnitude = 9;        ///< strength of RandAugment's operations, 0 … kMaxMagnitude
  ColorJitter jitter = {};  ///< changes of colors
  double erasing = 0;       ///< probability of erasing a part to 0, after normalization
};

/// How pairs of samples and their labels are mixed. With both mixup and CutMix, each sample gets one of them at random.
struct MixOptions {
  double mixup =
      0;  ///< α of Beta(α, α), from which the sample's share is drawn (Zhang et al., arXiv:1710.09412); 0: off
  double cutmix = 0;  ///< α of CutMix, for the sample's share of the area (Yun et al., arXiv:1905.04899); 0: off
};

/// The order of an image's values in memory: one plane for each channel, or three neighboring values for each pixel.
enum class PixelLayout : std::uint8_t {
  kNchw,  ///< planes
  kNhwc,  ///< pixels
};

/// How pixel values are normalized: for each channel, result = (value / 255 − mean) / stddev or, with a mean image,
/// result = (value − value of the mean image) / 255.
struct Normalization {
  std::array<float, 3> mean = {0.485F, 0.456F,
                               0.406F};  ///< means of red, green and blue: ImageNet's, as in torchvision
  std::array<float, 3> stddev = {0.229F, 0.224F, 0.225F};  ///< standard deviations of red, green and blue
  std::vector<float> mean_image = {};  ///< (3, resize, resize), values 0 … 255; only with the fixed crop modes
};

}  // namespace mn::data
