/// Turns an encoded image into a network's input.
///
/// The steps for each sample: choose the crop, from the size in the image's header; decode the crop's part of the
/// image, at the least sufficient resolution; resample the part to size × size pixels, mirrored or not; apply
/// RandAugment's and color jitter's operations; normalize into the caller's memory; erase a part of the normalized
/// image.
///
/// (1) The values depend only on the encoded bytes, options, seed, epoch and index, not on the thread, the CPU or
///     earlier samples.
/// (2) Decoding scales a JPEG down only so far that the crop keeps at least `size` pixels a side. Therefore resampling
///     never enlarges a part that decoding has shrunk.
/// (3) All buffers are members, so their memory is reused from sample to sample.
///
/// Cost: dominated by decoding; then about 3 · size² · (taps + 2) multiplications, and a pass over the result for each
/// operation.
/// Sources: torchvision's presets for (value / 255 − mean) / stddev, ChainerMN's imagenet example for the mean image.
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

/// Decodes and augments samples, one by one, and reuses its memory. For one thread at a time.
class ImageAugmenter {
 public:
  /// Throws ArgumentError if options contradict each other.
  ImageAugmenter(const CropOptions& crop, Normalization normalization, PixelLayout layout,
                 const AugmentOptions& augment = {});

  /// Fills `out` with 3 × size × size values in the constructor's PixelLayout. Throws DataError as ImageDecoder does.
  void operator()(std::span<const std::byte> encoded, std::uint64_t seed, std::int64_t epoch, std::int64_t index,
                  std::span<float> out);

  /// Returns the augmented RGB image, size × size pixels, before normalization and erasing, and sets `choices`.
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
