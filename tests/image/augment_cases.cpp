#include "tests/image/augment_cases.hpp"

#include <array>

#include <mn/image/augment_choices.hpp>

#include "tests/support/textured_image.hpp"

namespace mn::data {
namespace {

constexpr std::array<std::string_view, 15> kNames = {
    "Identity", "ShearX",    "ShearY",    "TranslateX", "TranslateY",   "Rotate",   "Brightness", "Color",
    "Contrast", "Sharpness", "Posterize", "Solarize",   "AutoContrast", "Equalize", "Hue"};

/// Of low contrast and not gray, so that AutoContrast and Equalize have something to do.
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

/// What the seed draws for one image.
std::vector<ImageOperation> draw_operations(int size, int magnitude, std::int64_t index) {
  SampleRandom random(1, 2, index);
  return choose_operations(size,
                           {.randaugment = 2,
                            .magnitude = magnitude,
                            .jitter = {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.3}},
                           random);
}

}  // namespace

std::string_view name_of(OperationKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::vector<AugmentCase> augment_cases(int width, int height, int of_each, int chains) {
  constexpr int kSeeds = 200;
  std::vector<AugmentCase> cases;
  for (int index = 0; index < kSeeds; ++index) {
    for (const ImageOperation& operation : draw_operations(width, 1 + index * 7 % kMostMagnitude, index)) {
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

}  // namespace mn::data
