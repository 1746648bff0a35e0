#include <mn/image/augment_choices.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace mn::data {
namespace {

constexpr int kErasingTries = 10;  // as in torchvision; after the last try nothing is erased

bool has_sign(OperationKind kind) { return kind >= OperationKind::kShearX && kind <= OperationKind::kSharpness; }

bool is_factor(OperationKind kind) { return kind >= OperationKind::kBrightness && kind <= OperationKind::kSharpness; }

/// The amount of an operation, without its sign, for a strength in [0, 1].
double amount_of(OperationKind kind, double strength, int size) {
  using enum OperationKind;
  if (kind == kShearX || kind == kShearY) return 0.3 * strength;
  if (kind == kTranslateX || kind == kTranslateY) return std::floor(150.0 / 331 * size * strength);
  if (kind == kRotate) return 30 * strength;
  if (is_factor(kind)) return 0.9 * strength;
  if (kind == kPosterize) return 8 - std::nearbyint(4 * strength);
  if (kind == kSolarize) return 255 * (1 - strength);
  return 0;
}

ImageOperation choose_operation(int size, double strength, SampleRandom& random) {
  const auto kind = static_cast<OperationKind>(random.below(kRandAugmentKinds));
  double amount = amount_of(kind, strength, size);
  if (has_sign(kind) && random.below(2) == 1) amount = -amount;
  return {kind, is_factor(kind) ? 1 + amount : amount};
}

void choose_jitter(const ColorJitter& jitter, SampleRandom& random, std::vector<ImageOperation>& operations) {
  std::array<std::pair<OperationKind, double>, 4> kinds = {{{OperationKind::kBrightness, jitter.brightness},
                                                            {OperationKind::kContrast, jitter.contrast},
                                                            {OperationKind::kSaturation, jitter.saturation},
                                                            {OperationKind::kHue, jitter.hue}}};
  for (int left = static_cast<int>(kinds.size()); left > 1; --left) {
    std::swap(kinds[left - 1], kinds[random.below(left)]);
  }
  for (const auto& [kind, range] : kinds) {
    if (range == 0) continue;
    const bool turns = kind == OperationKind::kHue;
    operations.push_back(
        {kind, turns ? random.uniform(-range, range) : random.uniform(std::max(0.0, 1 - range), 1 + range)});
  }
}

}  // namespace

std::vector<ImageOperation> choose_operations(int size, const AugmentOptions& options, SampleRandom& random) {
  std::vector<ImageOperation> operations;
  const double strength = options.magnitude / double(kMaxMagnitude);
  for (int i = 0; i < options.randaugment; ++i) operations.push_back(choose_operation(size, strength, random));
  if (options.jitter != ColorJitter{}) choose_jitter(options.jitter, random, operations);
  return operations;
}

Region choose_erased(int size, const AugmentOptions& options, SampleRandom& random) {
  if (options.erasing == 0 || random.uniform(0, 1) >= options.erasing) return {};
  const double area = double(size) * size;
  for (int i = 0; i < kErasingTries; ++i) {
    const double target = area * random.uniform(kLeastErased, kMaxErased);
    const double ratio = std::exp(random.uniform(std::log(kLeastErasedRatio), std::log(1 / kLeastErasedRatio)));
    const int height = static_cast<int>(std::lround(std::sqrt(target * ratio)));
    const int width = static_cast<int>(std::lround(std::sqrt(target / ratio)));
    if (height >= size || width >= size || height < 1 || width < 1) continue;
    const int y = random.below(size - height + 1);
    const int x = random.below(size - width + 1);
    return {x, y, width, height};
  }
  return {};
}

AugmentChoices choose_augmentation(int width, int height, const CropOptions& crop, const AugmentOptions& options,
                                   SampleRandom& random) {
  AugmentChoices choices;
  choices.crop = choose_crop(width, height, crop, random);
  choices.operations = choose_operations(crop.size, options, random);
  choices.erased = choose_erased(crop.size, options, random);
  return choices;
}

}  // namespace mn::data
