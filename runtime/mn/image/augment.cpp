#include <mn/image/augment.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/image/mix.hpp>
#include <mn/image/simd.hpp>

namespace mn::data {
namespace {

/// Converts `box` from coordinates of the whole image to coordinates of the decoded image. There, the part `decoded`
/// shows the region `whole`.
Box in_part(const Box& box, const Region& whole, const Box& decoded) {
  const double scale_x = decoded.width / whole.width;
  const double scale_y = decoded.height / whole.height;
  return {decoded.x + (box.x - whole.x) * scale_x, decoded.y + (box.y - whole.y) * scale_y, box.width * scale_x,
          box.height * scale_y};
}

/// The smallest region with all pixels of `image` that `box` touches.
Region touched(const Box& box, const Image& image) {
  const int x = std::max(static_cast<int>(box.x), 0);
  const int y = std::max(static_cast<int>(box.y), 0);
  const int right = std::min(static_cast<int>(std::ceil(box.x + box.width)), image.width);
  const int bottom = std::min(static_cast<int>(std::ceil(box.y + box.height)), image.height);
  return {x, y, right - x, bottom - y};
}

MN_SIMD void scale_to_planes(const std::uint8_t* values, std::size_t pixels, const float* scale, const float* offset,
                             float* out) {
  float* __restrict red = out;
  float* __restrict green = out + pixels;
  float* __restrict blue = out + 2 * pixels;
  const float s[3] = {scale[0], scale[1], scale[2]};
  const float o[3] = {offset[0], offset[1], offset[2]};
  for (std::size_t i = 0; i < pixels; ++i) {
    red[i] = static_cast<float>(values[3 * i]) * s[0] + o[0];
    green[i] = static_cast<float>(values[3 * i + 1]) * s[1] + o[1];
    blue[i] = static_cast<float>(values[3 * i + 2]) * s[2] + o[2];
  }
}

/// out[i] = values[i] · scale[c] + offset[c], where c is the channel of value i. Works in runs of 48 values, a multiple
/// of the 3 values of a pixel and of the 8 values of a vector.
MN_SIMD void scale_to_pixels(const std::uint8_t* values, std::size_t pixels, const float* scale, const float* offset,
                             float* __restrict out) {
  constexpr std::size_t kRun = 48;
  float s[kRun];
  float o[kRun];
  for (std::size_t i = 0; i < kRun; ++i) {
    s[i] = scale[i % 3];
    o[i] = offset[i % 3];
  }
  const std::size_t count = 3 * pixels;
  std::size_t first = 0;
  for (; first + kRun <= count; first += kRun) {
    for (std::size_t i = 0; i < kRun; ++i) out[first + i] = static_cast<float>(values[first + i]) * s[i] + o[i];
  }
  for (std::size_t i = 0; first + i < count; ++i) out[first + i] = static_cast<float>(values[first + i]) * s[i] + o[i];
}

void check_augmentation(const AugmentOptions& options) {
  const ColorJitter& jitter = options.jitter;
  const auto is_range = [](double value, double most) { return value >= 0 && value <= most; };
  constexpr double kAnyFactor = 1e6;
  if (options.randaugment < 0 || !is_range(options.magnitude, kMaxMagnitude)) {
    throw ArgumentError("RandAugment with " + std::to_string(options.randaugment) + " operations of magnitude " +
                        std::to_string(options.magnitude) + ": at least 0, and 0 to 30");
  }
  if (!is_range(jitter.brightness, kAnyFactor) || !is_range(jitter.contrast, kAnyFactor) ||
      !is_range(jitter.saturation, kAnyFactor) || !is_range(jitter.hue, 0.5)) {
    throw ArgumentError("color jitter must be at least 0, and at most 0.5 for the hue");
  }
  if (!is_range(options.erasing, 1)) throw ArgumentError("the probability of erasing must be from 0 to 1");
}

}  // namespace

ImageAugmenter::ImageAugmenter(const CropOptions& crop, Normalization normalization, PixelLayout layout,
                               const AugmentOptions& augment)
    : options_(crop), augment_(augment), normalization_(std::move(normalization)), layout_(layout) {
  check_augmentation(augment);
  const bool is_fixed = crop.mode == CropMode::kRandomFixed || crop.mode == CropMode::kCenterFixed;
  if (crop.size < 1 || (crop.mode != CropMode::kRandomResized && crop.resize < crop.size)) {
    throw ArgumentError("a crop of " + std::to_string(crop.size) + " pixels from an image resized to " +
                        std::to_string(crop.resize));
  }
  const auto& mean = normalization_.mean_image;
  if (!mean.empty() && (!is_fixed || mean.size() != std::size_t{3} * crop.resize * crop.resize)) {
    throw ArgumentError("the mean image does not have the size of the resized images");
  }
}

const Image& ImageAugmenter::augment(std::span<const std::byte> encoded, std::uint64_t seed, std::int64_t epoch,
                                     std::int64_t index, AugmentChoices& choices) {
  const ImageHeader& header = decoder_.open(encoded);
  SampleRandom random(seed, epoch, index);
  choices = choose_augmentation(header.width, header.height, options_, augment_, random);
  const Crop& crop = choices.crop;
  const double share_x = crop.readable.width / crop.box.width;  // the decoded box must have at least `size` columns
  const double share_y = crop.readable.height / crop.box.height;
  const Box decoded = decoder_.decode(crop.readable, static_cast<int>(std::ceil(options_.size * share_x)),
                                      static_cast<int>(std::ceil(options_.size * share_y)), part_);
  resizer_.resize(part_, in_part(crop.box, crop.readable, decoded), touched(decoded, part_), options_.size,
                  options_.size, crop.flip, result_, options_.interpolation);
  for (const ImageOperation& operation : choices.operations) operator_.apply(operation, result_);
  return result_;
}

void ImageAugmenter::operator()(std::span<const std::byte> encoded, std::uint64_t seed, std::int64_t epoch,
                                std::int64_t index, std::span<float> out) {
  if (out.size() != std::size_t{3} * options_.size * options_.size) throw ArgumentError("room for another image size");
  AugmentChoices choices;
  (void)augment(encoded, seed, epoch, index, choices);
  normalization_.mean_image.empty() ? normalize(out) : subtract_mean_image(choices.crop, out);
  erase_part(choices.erased, options_.size, layout_, out);
}

void ImageAugmenter::normalize(std::span<float> out) const {
  const std::size_t pixels = out.size() / 3;
  float scale[3];
  float offset[3];
  for (int c = 0; c < 3; ++c) {
    scale[c] = 1 / (255 * normalization_.stddev[c]);
    offset[c] = -normalization_.mean[c] / normalization_.stddev[c];
  }
  const std::uint8_t* values = result_.pixels.data();
  layout_ == PixelLayout::kNchw ? scale_to_planes(values, pixels, scale, offset, out.data())
                                : scale_to_pixels(values, pixels, scale, offset, out.data());
}

void ImageAugmenter::subtract_mean_image(const Crop& crop, std::span<float> out) const {
  const auto size = static_cast<std::size_t>(options_.size);
  const auto side = static_cast<std::size_t>(options_.resize);
  const bool planes = layout_ == PixelLayout::kNchw;
  for (std::size_t y = 0; y < size; ++y) {
    for (std::size_t x = 0; x < size; ++x) {
      // As in ChainerMN, the mean image is not mirrored.
      const std::size_t at = (crop.in_resized.y + y) * side + crop.in_resized.x + x;
      for (std::size_t c = 0; c < 3; ++c) {
        const float value = static_cast<float>(result_.pixels[3 * (y * size + x) + c]);
        const std::size_t to = planes ? (c * size + y) * size + x : 3 * (y * size + x) + c;
        out[to] = (value - normalization_.mean_image[c * side * side + at]) / 255.0F;
      }
    }
  }
}

}  // namespace mn::data
