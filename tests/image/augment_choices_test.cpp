#include <cmath>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <mn/image/augment_choices.hpp>

namespace mn::data {
namespace {

std::vector<ImageOperation> drawn(const AugmentOptions& options, std::int64_t index, int size = 224) {
  SampleRandom random(1, 0, index);
  return choose_operations(size, options, random);
}

TEST(AugmentChoices, RandAugmentTakesEachKindEquallyOften) {
  constexpr int kSamples = 7000;
  std::map<OperationKind, int> counts;
  std::map<OperationKind, int> negative;
  for (int i = 0; i < kSamples; ++i) {
    const auto operations = drawn({.randaugment = 2, .magnitude = 9}, i);
    ASSERT_EQ(operations.size(), 2u);
    for (const auto& [kind, amount] : operations) {
      ++counts[kind];
      const bool factor = kind >= OperationKind::kBrightness && kind <= OperationKind::kSharpness;
      negative[kind] += amount < (factor ? 1 : 0);
    }
  }
  ASSERT_EQ(counts.size(), static_cast<std::size_t>(kRandAugmentKinds));
  for (const auto& [kind, count] : counts) {
    EXPECT_NEAR(count, 1000, 120) << static_cast<int>(kind);
    const bool has_sign = kind >= OperationKind::kShearX && kind <= OperationKind::kSharpness;
    EXPECT_NEAR(negative[kind], has_sign ? count / 2 : 0, has_sign ? 80 : 0) << static_cast<int>(kind);
  }
}

TEST(AugmentChoices, RandAugmentsAmountsAreTorchvisions) {
  std::map<OperationKind, double> amounts;  // amounts at magnitude 9 of 30, for 224 pixels
  for (int i = 0; i < 200; ++i) {
    for (const auto& [kind, amount] : drawn({.randaugment = 2, .magnitude = 9}, i)) {
      const bool factor = kind >= OperationKind::kBrightness && kind <= OperationKind::kSharpness;
      amounts[kind] = std::abs(amount - (factor ? 1 : 0));
    }
  }
  EXPECT_DOUBLE_EQ(amounts[OperationKind::kShearX], 0.09);
  EXPECT_DOUBLE_EQ(amounts[OperationKind::kTranslateY], 30);  // ⌊0.3 · 150 / 331 · 224⌋
  EXPECT_DOUBLE_EQ(amounts[OperationKind::kRotate], 9);
  EXPECT_NEAR(amounts[OperationKind::kContrast], 0.27, 1e-12);
  EXPECT_DOUBLE_EQ(amounts[OperationKind::kPosterize], 7);
  EXPECT_DOUBLE_EQ(amounts[OperationKind::kSolarize], 178.5);
}

TEST(AugmentChoices, JitterIsWithinItsRangesAndInAnyOrder) {
  const AugmentOptions options = {.jitter = {.brightness = 0.4, .contrast = 2, .saturation = 0.3, .hue = 0.1}};
  std::map<OperationKind, int> first;
  for (int i = 0; i < 2000; ++i) {
    const auto operations = drawn(options, i);
    ASSERT_EQ(operations.size(), 4u);
    ++first[operations[0].kind];
    for (const auto& [kind, amount] : operations) {
      const std::map<OperationKind, std::pair<double, double>> ranges = {{OperationKind::kBrightness, {0.6, 1.4}},
                                                                         {OperationKind::kContrast, {0, 3}},
                                                                         {OperationKind::kSaturation, {0.7, 1.3}},
                                                                         {OperationKind::kHue, {-0.1, 0.1}}};
      EXPECT_GE(amount, ranges.at(kind).first);
      EXPECT_LE(amount, ranges.at(kind).second);
    }
  }
  ASSERT_EQ(first.size(), 4u);
  for (const auto& [kind, count] : first) EXPECT_NEAR(count, 500, 90) << static_cast<int>(kind);
  EXPECT_EQ(drawn({.jitter = {.hue = 0.5}}, 0).size(), 1u);
}

TEST(AugmentChoices, ErasedPartsLieInside) {
  int erased = 0;
  double area = 0;
  for (int i = 0; i < 4000; ++i) {
    SampleRandom random(2, 0, i);
    const Region region = choose_erased(100, {.erasing = 0.25}, random);
    if (region.width == 0) continue;
    ++erased;
    area += region.width * region.height / 1e4;
    EXPECT_TRUE(region.x >= 0 && region.y >= 0 && region.x + region.width <= 100 && region.y + region.height <= 100);
    EXPECT_TRUE(region.width * region.height > 180 && region.width * region.height < 3400);
  }
  EXPECT_NEAR(erased, 1000, 90);
  EXPECT_NEAR(area / erased, 0.17, 0.02);
}

TEST(AugmentChoices, CropsStayAsTheyAreWithoutTheRest) {
  const AugmentOptions all = {.randaugment = 2, .jitter = {.brightness = 1}, .erasing = 1};
  for (int i = 0; i < 50; ++i) {
    SampleRandom plain(3, 1, i);
    SampleRandom varied(3, 1, i);
    const Crop a = choose_augmentation(300, 200, {}, {}, plain).crop;
    const Crop b = choose_augmentation(300, 200, {}, all, varied).crop;
    EXPECT_EQ(a.readable, b.readable);
    EXPECT_EQ(a.flip, b.flip);
  }
}

}  // namespace
}  // namespace mn::data
