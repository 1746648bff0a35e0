/// From an encoded image to a network's input: cut, resized, mirrored, varied, normalized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <mn/image/augment_choices.hpp>
#include <mn/image/augment_options.hpp>
#include <mn/image/image.hpp>
#include <mn/image/image_decoder.hpp>
#include <mn/image/operations.hpp>
#include <mn/image/resize.hpp>

namespace mn::data {

/// Decodes and augments one sample after another. Keeps its memory; one thread at a time.
class ImageAugmenter {
 public:
  /// Throws ArgumentError if the options contradict each other.
  ImageAugmenter(const CropOptions& crop, Normalization normalization, PixelLayout layout,
                 const AugmentOptions& augment = {});

  /// Fills `out` with 3 × size × size values, in the layout. Equal arguments give equal bits. Throws DataError as
  /// ImageDecoder does.
  void operator()(std::span<const std::byte> encoded, std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                  std::span<float> out);

  /// The same before normalization and erasing: RGB, size × size. `choices` says what was done.
  const Image& augment(std::span<const std::byte> encoded, std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                       AugmentChoices& choices);

 private:
  void normalize(std::span<float> out) const;
  void subtract_mean_image(const Crop& crop, std::span<float> out) const;

  CropOptions options_;
  AugmentOptions augment_;
  Normalization normalization_;
  PixelLayout layout_;
  ImageDecoder decoder_;
  Resizer resizer_;
  ImageOperator operator_;
  Image part_;
  Image result_;
};

}  // namespace mn::data
