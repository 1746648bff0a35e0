#include <map>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include <mn/image/random_crop.hpp>

namespace mn::data {
namespace {

TEST(SampleRandom, DependsOnSeedEpochAndIndexAlone) {
  std::set<double> seen;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      for (std::int64_t index = 0; index < 4; ++index) {
        EXPECT_EQ(SampleRandom(seed, epoch, index).uniform(0, 1), SampleRandom(seed, epoch, index).uniform(0, 1));
        seen.insert(SampleRandom(seed, epoch, index).uniform(0, 1));
      }
    }
  }
  EXPECT_EQ(seen.size(), 64u);
}

TEST(SampleRandom, IsUniform) {
  double sum = 0;
  double squares = 0;
  std::map<int, int> counts;
  constexpr int kDraws = 60000;
  for (int i = 0; i < kDraws; ++i) {
    SampleRandom random(7, 0, i);
    const double u = random.uniform(2, 4);
    EXPECT_GE(u, 2);
    EXPECT_LT(u, 4);
    sum += u;
    squares += u * u;
    ++counts[random.below(6)];
  }
  EXPECT_NEAR(sum / kDraws, 3, 0.01);
  EXPECT_NEAR(squares / kDraws - 9, 1.0 / 3, 0.02);
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, kDraws / 6, 500) << value;
}

TEST(Crop, RandomResizedStaysWithinItsOptions) {
  const CropOptions options;
  int flips = 0;
  int fallbacks = 0;
  double area_sum = 0;
  for (int i = 0; i < 2000; ++i) {
    SampleRandom random(1, 2, i);
    const Crop crop = choose_crop(500, 375, options, random);
    const Region& r = crop.readable;
    EXPECT_GE(r.x, 0);
    EXPECT_GE(r.y, 0);
    EXPECT_LE(r.x + r.width, 500);
    EXPECT_LE(r.y + r.height, 375);
    EXPECT_EQ(crop.box.width, r.width);
    const double area = double(r.width) * r.height / (500 * 375);
    EXPECT_GT(area, 0.078);
    EXPECT_LE(area, 1);
    EXPECT_GT(double(r.width) / r.height, 0.74);
    EXPECT_LT(double(r.width) / r.height, 1.35);
    flips += crop.flip;
    fallbacks += r.width == 500 && r.height == 375;
    area_sum += area;
  }
  EXPECT_NEAR(flips, 1000, 90);
  EXPECT_NEAR(area_sum / 2000, 0.432, 0.02);  // not 0.54: large parts often exceed the image and are drawn again
  EXPECT_LT(fallbacks, 100);
}

TEST(Crop, NarrowImagesFallBackToTheCenter) {
  SampleRandom random(0, 0, 0);
  const Crop wide = choose_crop(1000, 10, {.min_area = 0.9}, random);
  EXPECT_EQ(wide.readable, (Region{493, 0, 13, 10}));
  const Crop tall = choose_crop(10, 1000, {.min_area = 0.9}, random);
  EXPECT_EQ(tall.readable, (Region{0, 493, 10, 13}));
  EXPECT_EQ(choose_crop(1, 1, {}, random).readable, (Region{0, 0, 1, 1}));
}

TEST(Crop, CenterIsThatOfTheResizedImage) {
  SampleRandom random(0, 0, 0);
  const CropOptions options = {.mode = CropMode::kCenter, .size = 224, .resize = 256};
  const Crop crop = choose_crop(500, 400, options, random);  // becomes 320 × 256, cut at (48, 16)
  EXPECT_EQ(crop.in_resized, (Region{48, 16, 224, 224}));
  EXPECT_DOUBLE_EQ(crop.box.x, 48 * 500.0 / 320);
  EXPECT_DOUBLE_EQ(crop.box.y, 16 * 400.0 / 256);
  EXPECT_DOUBLE_EQ(crop.box.width, 224 * 500.0 / 320);
  EXPECT_FALSE(crop.flip);
  // 401 × 300 becomes 342 × 256; half of 118 is 59.
  EXPECT_EQ(choose_crop(401, 300, options, random).in_resized, (Region{59, 16, 224, 224}));
  // 300 × 400 becomes 256 × 341; half of 117 rounds to the even neighbor, as Python's round() does.
  EXPECT_EQ(choose_crop(300, 400, options, random).in_resized, (Region{16, 58, 224, 224}));
}

TEST(Crop, FixedOffsetsCoverTheMargin) {
  const CropOptions options = {.mode = CropMode::kRandomFixed, .size = 30, .resize = 32};
  std::set<std::pair<int, int>> offsets;
  for (int i = 0; i < 200; ++i) {
    SampleRandom random(0, 0, i);
    const Crop crop = choose_crop(64, 96, options, random);
    offsets.emplace(crop.in_resized.x, crop.in_resized.y);
    EXPECT_DOUBLE_EQ(crop.box.x, 2.0 * crop.in_resized.x);
    EXPECT_DOUBLE_EQ(crop.box.y, 3.0 * crop.in_resized.y);
  }
  EXPECT_EQ(offsets.size(), 9u);
}

}  // namespace
}  // namespace mn::data
