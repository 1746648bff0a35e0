#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <mn/image/mix.hpp>

namespace mn::data {
namespace {

Mix drawn(const MixOptions& options, std::int64_t index) { return choose_mix(options, 40, 30, 1, 2, index); }

TEST(Mix, DependsOnSeedEpochAndSampleAlone) {
  std::set<double> shares;
  for (const std::uint64_t seed : {0, 1}) {
    for (const std::int64_t epoch : {0, 1}) {
      for (const std::int64_t index : {0, 1}) {
        const Mix mix = choose_mix({.mixup = 1}, 40, 30, seed, epoch, index);
        EXPECT_EQ(mix, choose_mix({.mixup = 1}, 40, 30, seed, epoch, index));
        shares.insert(mix.share);
      }
    }
  }
  EXPECT_EQ(shares.size(), 8u);
}

TEST(Mix, SharesHaveTheBetaDistribution) {
  constexpr int kDraws = 20000;
  for (const double alpha : {0.1, 0.2, 1.0, 4.0}) {
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double share = drawn({.mixup = alpha}, i).share;
      ASSERT_TRUE(share >= 0 && share <= 1) << share;
      sum += share;
      squares += share * share;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / kDraws - mean * mean, 1 / (4 * (2 * alpha + 1)), 0.005) << alpha;
  }
}

TEST(Mix, CutMixPastesTheAreaThatTheLabelLacks) {
  double share = 0;
  for (int i = 0; i < 5000; ++i) {
    const Mix mix = drawn({.cutmix = 1}, i);
    const Region& part = mix.pasted;
    EXPECT_TRUE(part.x >= 0 && part.y >= 0 && part.x + part.width <= 40 && part.y + part.height <= 30);
    EXPECT_DOUBLE_EQ(mix.share, 1 - part.width * part.height / 1200.0);
    share += mix.share / 5000;
  }
  EXPECT_GT(share, 0.55);  // parts that would reach over an edge are cut off
  EXPECT_LT(share, 0.75);
}

TEST(Mix, BothTakeTurnsAndNeitherChangesNothing) {
  int cut = 0;
  for (int i = 0; i < 2000; ++i) cut += drawn({.mixup = 1, .cutmix = 1}, i).pasted.width > 0;
  EXPECT_NEAR(cut, 980, 100);  // some parts are empty
  EXPECT_EQ(drawn({}, 0), Mix{});
  EXPECT_FALSE(std::isnan(drawn({.mixup = 1e-6}, 0).share));
  EXPECT_NEAR(drawn({.mixup = 1e4}, 0).share, 0.5, 0.05);
}

}  // namespace
}  // namespace mn::data
