#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/image/augment.hpp>
#include <mn/image/simd.hpp>

namespace mn::data {
namespace {

constexpr int kTries = 10;  // torchvision's, before it falls back to the centre

std::uint64_t mixed(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// The part of the picture with a ratio that is allowed, as large as can be, in its centre.
Region largest_centre(int width, int height, const CropOptions& options) {
  const double ratio = double(width) / height;
  int w = width;
  int h = height;
  if (ratio < options.min_ratio) h = std::clamp(static_cast<int>(std::lround(w / options.min_ratio)), 1, height);
  if (ratio > options.max_ratio) w = std::clamp(static_cast<int>(std::lround(h * options.max_ratio)), 1, width);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

Region random_part(int width, int height, const CropOptions& options, SampleRandom& random) {
  const double area = double(width) * height;
  for (int i = 0; i < kTries; ++i) {
    const double target = area * random.uniform(options.min_area, options.max_area);
    const double ratio = std::exp(random.uniform(std::log(options.min_ratio), std::log(options.max_ratio)));
    const int w = static_cast<int>(std::lround(std::sqrt(target * ratio)));
    const int h = static_cast<int>(std::lround(std::sqrt(target / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const int x = random.below(width - w + 1);
    const int y = random.below(height - h + 1);
    return {x, y, w, h};
  }
  return largest_centre(width, height, options);
}

/// The short side becomes options.resize, the long one keeps the ratio; both, with the fixed modes.
std::pair<int, int> resized_size(int width, int height, const CropOptions& options) {
  const int resize = options.resize;
  if (options.mode != CropMode::kCentre) return {resize, resize};
  const auto longer = [resize](int a, int b) { return static_cast<int>(std::int64_t{resize} * a / b); };
  return width <= height ? std::pair(resize, longer(height, width)) : std::pair(longer(width, height), resize);
}

/// Pixels that count for `box` when the picture is resized by these factors before it is cut.
Region surroundings(const Box& box, double scale_x, double scale_y, int width, int height) {
  const double radius_x = std::max(scale_x, 1.0) + 1;
  const double radius_y = std::max(scale_y, 1.0) + 1;
  const int x = std::max(static_cast<int>(std::floor(box.x - radius_x)), 0);
  const int y = std::max(static_cast<int>(std::floor(box.y - radius_y)), 0);
  const int right = std::min(static_cast<int>(std::ceil(box.x + box.width + radius_x)), width);
  const int bottom = std::min(static_cast<int>(std::ceil(box.y + box.height + radius_y)), height);
  return {x, y, right - x, bottom - y};
}

Crop crop_of_resized(int width, int height, const CropOptions& options, SampleRandom& random) {
  const auto [resized_width, resized_height] = resized_size(width, height, options);
  const bool is_random = options.mode == CropMode::kRandomFixed;
  const auto place = [&](int room) {
    return is_random ? random.below(room + 1) : static_cast<int>(std::nearbyint(room / 2.0));
  };
  const int x = place(resized_width - options.size);
  const int y = place(resized_height - options.size);
  const double scale_x = double(width) / resized_width;
  const double scale_y = double(height) / resized_height;
  Crop crop;
  crop.in_resized = {x, y, options.size, options.size};
  crop.box = {x * scale_x, y * scale_y, options.size * scale_x, options.size * scale_y};
  crop.readable = surroundings(crop.box, scale_x, scale_y, width, height);
  return crop;
}

/// Where a box of the picture lies in its decoded part: `whole` of the picture lies at `decoded` there.
Box in_part(const Box& box, const Region& whole, const Box& decoded) {
  const double scale_x = decoded.width / whole.width;
  const double scale_y = decoded.height / whole.height;
  return {decoded.x + (box.x - whole.x) * scale_x, decoded.y + (box.y - whole.y) * scale_y, box.width * scale_x,
          box.height * scale_y};
}

/// The pixels that `box` touches.
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

/// In runs of a length that whole pixels and whole vectors share.
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

}  // namespace

SampleRandom::SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index) noexcept
    : state_(mixed(mixed(mixed(seed + 1) + static_cast<std::uint64_t>(epoch)) + static_cast<std::uint64_t>(index))) {}

std::uint64_t SampleRandom::next() noexcept {
  state_ += 0x9E3779B97F4A7C15ULL;
  return mixed(state_);
}

double SampleRandom::uniform(double least, double most) noexcept {
  return least + (most - least) * (static_cast<double>(next() >> 11) * 0x1p-53);
}

int SampleRandom::below(int n) noexcept {
  return static_cast<int>((next() >> 32) * static_cast<std::uint64_t>(n) >> 32);
}

Crop choose_crop(int width, int height, const CropOptions& options, SampleRandom& random) {
  Crop crop;
  if (options.mode == CropMode::kRandomResized) {
    crop.readable = random_part(width, height, options, random);
    crop.box = to_box(crop.readable);
  } else {
    crop = crop_of_resized(width, height, options, random);
  }
  const bool is_random = options.mode == CropMode::kRandomResized || options.mode == CropMode::kRandomFixed;
  crop.flip = is_random && options.flip && random.below(2) == 1;
  return crop;
}

ImageAugmenter::ImageAugmenter(const CropOptions& crop, Normalization normalization, PixelLayout layout)
    : options_(crop), normalization_(std::move(normalization)), layout_(layout) {
  const bool is_fixed = crop.mode == CropMode::kRandomFixed || crop.mode == CropMode::kCentreFixed;
  if (crop.size < 1 || (crop.mode != CropMode::kRandomResized && crop.resize < crop.size)) {
    throw ArgumentError("a crop of " + std::to_string(crop.size) + " pixels from a picture resized to " +
                        std::to_string(crop.resize));
  }
  const auto& mean = normalization_.mean_image;
  if (!mean.empty() && (!is_fixed || mean.size() != std::size_t{3} * crop.resize * crop.resize)) {
    throw ArgumentError("the mean image does not have the size of the resized pictures");
  }
}

const Image& ImageAugmenter::augment(std::span<const std::byte> encoded, std::uint64_t seed, std::int64_t epoch,
                                     std::int64_t index, Crop& crop) {
  const ImageHeader& header = decoder_.open(encoded);
  SampleRandom random(seed, epoch, index);
  crop = choose_crop(header.width, header.height, options_, random);
  const double share_x = crop.readable.width / crop.box.width;  // of the readable part to the box, for its least size
  const double share_y = crop.readable.height / crop.box.height;
  const Box decoded = decoder_.decode(crop.readable, static_cast<int>(std::ceil(options_.size * share_x)),
                                      static_cast<int>(std::ceil(options_.size * share_y)), part_);
  resizer_.resize(part_, in_part(crop.box, crop.readable, decoded), touched(decoded, part_), options_.size,
                  options_.size, crop.flip, result_);
  return result_;
}

void ImageAugmenter::operator()(std::span<const std::byte> encoded, std::uint64_t seed, std::int64_t epoch,
                                std::int64_t index, std::span<float> out) {
  if (out.size() != std::size_t{3} * options_.size * options_.size) throw ArgumentError("room for another image size");
  Crop crop;
  (void)augment(encoded, seed, epoch, index, crop);
  normalization_.mean_image.empty() ? normalize(out) : subtract_mean_image(crop, out);
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
      // The picture is mirrored before the mean is taken off, as in ChainerMN: the mean is not.
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
