#include "tests/image/augment_cases.hpp"

#include <array>

#include <ATen/ops/tensor.h>

#include <mn/image/augment_choices.hpp>
#include <mn/image/mix.hpp>
#include <mn/loader/mix_images.hpp>

#include "tests/support/textured_image.hpp"

namespace mn::data {
namespace {

constexpr std::array<std::string_view, 15> kNames = {
    "Identity", "ShearX",    "ShearY",    "TranslateX", "TranslateY",   "Rotate",   "Brightness", "Color",
    "Contrast", "Sharpness", "Posterize", "Solarize",   "AutoContrast", "Equalize", "Hue"};

/// An image of low contrast that is not gray: AutoContrast and Equalize change it.
Image draw(int width, int height, std::int64_t index) {
  Image image = test::draw_textured_image({static_cast<int>(index % 7), 3, index}, width, height);
  for (std::uint8_t& value : image.pixels) value = static_cast<std::uint8_t>(20 + value * 4 / 5);
  return image;
}

bool has_kind(const std::vector<AugmentCase>& cases, OperationKind kind, int times) {
  int found = 0;
  for (const AugmentCase& one : cases) found += one.operation.kind == kind;
  return found >= times;
}

/// The random choices of a seed for an image.
std::vector<ImageOperation> draw_operations(int size, int magnitude, std::int64_t index) {
  SampleRandom random(1, 2, index);
  return choose_operations(size,
                           {.randaugment = 2,
                            .magnitude = magnitude,
                            .jitter = {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.3}},
                           random);
}

std::vector<float> to_planes(const Image& image) {
  const std::size_t pixels = image.pixels.size() / 3;
  std::vector<float> planes(3 * pixels);
  for (std::size_t i = 0; i < 3 * pixels; ++i) {
    planes[i % 3 * pixels + i / 3] = static_cast<float>(image.pixels[i]) / 255.0F;
  }
  return planes;
}

}  // namespace

std::string_view name_of(OperationKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::vector<AugmentCase> augment_cases(int width, int height, int of_each, int chains) {
  constexpr int kSeeds = 200;
  std::vector<AugmentCase> cases;
  for (int index = 0; index < kSeeds; ++index) {
    for (const ImageOperation& operation : draw_operations(width, 1 + index * 7 % kMaxMagnitude, index)) {
      if (!has_kind(cases, operation.kind, of_each)) cases.push_back({draw(width, height, index), operation});
    }
  }
  ImageOperator apply;
  for (int index = kSeeds; index < kSeeds + chains; ++index) {
    Image image = draw(width, height, index);
    for (const ImageOperation& operation : draw_operations(width, 9, index)) {
      cases.push_back({image, operation});
      apply.apply(operation, image);
    }
  }
  return cases;
}

std::vector<ResizeCase> resize_cases(int width, int height, int count) {
  std::vector<ResizeCase> cases;
  for (int index = 0; index < count; ++index) {
    SampleRandom random(5, 0, index);
    const Region part = choose_crop(width, height, {.min_area = 0.05, .flip = false}, random).readable;
    const int target = 8 + random.below(width);
    const auto filter = index % 2 == 0 ? Interpolation::kBicubic : Interpolation::kBilinear;
    cases.push_back({draw(width, height, index), part, target, 4 + target / 2, filter});
  }
  return cases;
}

std::vector<float> FloatCase::result() const {
  std::vector<float> values = to_planes(own);
  if (erased.width > 0) {
    erase_part(erased, own.width, PixelLayout::kNchw, values);
    return values;
  }
  const auto image = static_cast<std::ptrdiff_t>(values.size());
  const std::vector<float> other = to_planes(partner);
  values.insert(values.end(), other.begin(), other.end());
  const at::Tensor mixed = mix_images(at::tensor(values).view({2, 3, own.height, own.width}), std::vector{mix, mix});
  values.assign(mixed.const_data_ptr<float>(), mixed.const_data_ptr<float>() + image);
  return values;
}

std::vector<FloatCase> float_cases(int size, int count) {
  std::vector<FloatCase> cases;
  for (int index = 0; index < count; ++index) {
    FloatCase one{draw(size, size, index), draw(size, size, index + 1), {}, {}};
    if (index % 3 == 0) one.mix = choose_mix({.mixup = 0.8}, size, size, 1, 2, index);
    if (index % 3 == 1) one.mix = choose_mix({.cutmix = 1}, size, size, 1, 2, index);
    SampleRandom random(1, 2, index);
    if (index % 3 == 2) one.erased = choose_erased(size, {.erasing = 1}, random);
    cases.push_back(one);
  }
  return cases;
}

}  // namespace mn::data
