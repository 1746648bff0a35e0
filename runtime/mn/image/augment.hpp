/// From an encoded image to a network's input: cut, resized, mirrored, normalised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mn/image/image.hpp>
#include <mn/image/image_decoder.hpp>
#include <mn/image/resize.hpp>

namespace mn::data {

/// Random numbers that belong to one sample in one epoch, whichever thread or rank asks (SplitMix64; Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", 2014).
class SampleRandom {
 public:
  SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index) noexcept;
  [[nodiscard]] double uniform(double least, double most) noexcept;
  /// 0 … n − 1; n > 0.
  [[nodiscard]] int below(int n) noexcept;

 private:
  [[nodiscard]] std::uint64_t next() noexcept;
  std::uint64_t state_;
};

enum class CropMode : std::uint8_t {
  kRandomResized,  ///< a random part of random area and ratio, resized (Szegedy et al. 2014, arXiv:1409.4842)
  kCentre,         ///< the short side resized to `resize`, then the centre
  kRandomFixed,    ///< everything resized to resize × resize, then a random place (ChainerMN's training)
  kCentreFixed,    ///< everything resized to resize × resize, then the centre (ChainerMN's validation)
};

struct CropOptions {
  CropMode mode = CropMode::kRandomResized;
  int size = 224;          ///< height and width of the result
  int resize = 256;        ///< at least `size`; not for kRandomResized
  double min_area = 0.08;  ///< of the picture's; kRandomResized
  double max_area = 1;
  double min_ratio = 3.0 / 4;  ///< width over height
  double max_ratio = 4.0 / 3;
  bool flip = true;  ///< mirrored left to right in half of the cases; random modes
};

/// Which part of the picture becomes the result, and how.
struct Crop {
  Box box;            ///< in the picture's pixels
  Region readable;    ///< pixels that may count: the box itself where the picture is cut before it is resized
  Region in_resized;  ///< kRandomFixed, kCentreFixed: the same part of the resized picture
  bool flip = false;
};

/// Throws ArgumentError if options.resize < options.size where it counts.
[[nodiscard]] Crop choose_crop(int width, int height, const CropOptions& options, SampleRandom& random);

enum class PixelLayout : std::uint8_t { kNchw, kNhwc };

/// result = (value / 255 − mean) / stddev for each channel. With a mean image: (value − its value there) / 255.
struct Normalization {
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};  ///< ImageNet's, as torchvision has them
  std::array<float, 3> stddev = {0.229F, 0.224F, 0.225F};
  std::vector<float> mean_image = {};  ///< (3, resize, resize), values 0 … 255; only with the fixed crop modes
};

/// Decodes and augments one sample after another. Keeps its memory; one thread at a time.
class ImageAugmenter {
 public:
  /// Throws ArgumentError if the options contradict each other.
  ImageAugmenter(const CropOptions& crop, Normalization normalization, PixelLayout layout);

  /// Fills `out` with 3 × size × size values, in the layout. Equal arguments give equal bits. Throws DataError as
  /// ImageDecoder does.
  void operator()(std::span<const std::byte> encoded, std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                  std::span<float> out);

  /// The same before normalisation: RGB, size × size. `crop` says what was taken.
  const Image& augment(std::span<const std::byte> encoded, std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                       Crop& crop);

 private:
  void normalize(std::span<float> out) const;
  void subtract_mean_image(const Crop& crop, std::span<float> out) const;

  CropOptions options_;
  Normalization normalization_;
  PixelLayout layout_;
  ImageDecoder decoder_;
  Resizer resizer_;
  Image part_;
  Image result_;
};

}  // namespace mn::data
