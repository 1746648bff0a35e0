/// How an image becomes a network's input.
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

/// How that part is chosen.
struct CropOptions {
  CropMode mode = CropMode::kRandomResized;  ///< which part
  int size = 224;                            ///< height and width of the result
  int resize = 256;                          ///< at least `size`; not for kRandomResized
  double min_area = 0.08;                    ///< of the image's area; kRandomResized
  double max_area = 1;                       ///< likewise
  double min_ratio = 3.0 / 4;                ///< width over height; kRandomResized
  double max_ratio = 4.0 / 3;                ///< likewise
  bool flip = true;                          ///< mirrors half of the images left to right; random modes
};

/// Order of the values in memory: planes of one channel each, or pixels of three values each.
enum class PixelLayout : std::uint8_t {
  kNchw,  ///< planes
  kNhwc,  ///< pixels
};

/// result = (value / 255 − mean) / stddev for each channel. With a mean image: (value − its value there) / 255.
struct Normalization {
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};    ///< of red, green and blue: ImageNet's, as in torchvision
  std::array<float, 3> stddev = {0.229F, 0.224F, 0.225F};  ///< likewise
  std::vector<float> mean_image = {};  ///< (3, resize, resize), values 0 … 255; only with the fixed crop modes
};

}  // namespace mn::data
