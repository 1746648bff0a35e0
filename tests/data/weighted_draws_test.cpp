// Samples drawn by weight: frequencies, independence of the number of ranks, and resuming.
#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/sampler.hpp>

#include "tests/data/samples.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kSamples = 6000;

/// Class 0 has nine of ten samples, class 1 almost all others, class 2 one of a hundred.
std::vector<std::int64_t> rare_classes() {
  std::vector<std::int64_t> classes(kSamples);
  for (std::int64_t i = 0; i < kSamples; ++i) classes[i] = i % 100 == 7 ? 2 : i % 10 == 3 ? 1 : 0;
  return classes;
}

SamplerOptions options_of(int rank, int ranks, std::int64_t batchsize) {
  return {.batchsize = batchsize, .rank = rank, .ranks = ranks, .seed = 5, .order = {}};
}

DrawSampler sampler_of(const DrawOptions& draws, int rank = 0, int ranks = 1, std::int64_t batchsize = 60) {
  return {std::ssize(draws.weights), kFingerprint, draws, options_of(rank, ranks, batchsize)};
}

/// The samples of an epoch.
std::vector<std::int64_t> epoch_of(Sampler& sampler) {
  std::vector<std::int64_t> all;
  while (const auto step = sampler.next()) all.insert(all.end(), step->indices.begin(), step->indices.end());
  return all;
}

TEST(DrawsTest, BalanceDrawsEachClassEquallyOften) {
  const auto classes = rare_classes();
  DrawSampler sampler = sampler_of({.weights = balanced_weights(classes)});
  std::map<std::int64_t, double> counts;
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (const std::int64_t sample : epoch_of(sampler)) counts[classes[sample]] += 1.0 / (10 * kSamples);
  }
  ASSERT_EQ(counts.size(), 3U);
  for (const auto& [each, share] : counts) EXPECT_NEAR(share, 1.0 / 3, 0.01) << "class " << each;
}

TEST(DrawsTest, SamplesComeWithTheirWeights) {
  DrawSampler sampler = sampler_of({.weights = {0, 1, 0, 3, 0}, .samples = 40000});
  std::map<std::int64_t, double> counts;
  for (const std::int64_t sample : epoch_of(sampler)) counts[sample] += 1.0 / 40000;
  ASSERT_EQ(counts.size(), 2U) << "a sample of weight 0 was drawn";
  EXPECT_NEAR(counts[3], 0.75, 0.01);
}

TEST(DrawsTest, WithoutReplacementASampleComesOnce) {
  std::vector<double> weights(kSamples, 1);
  for (std::int64_t i = 0; i < kSamples / 2; ++i) weights[i] = 4;
  DrawSampler sampler = sampler_of({.weights = weights, .replacement = false, .samples = kSamples / 10});
  double heavy = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    const auto drawn = epoch_of(sampler);
    EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), drawn.size());
    EXPECT_EQ(std::ssize(drawn), kSamples / 10);
    heavy += static_cast<double>(std::ranges::count_if(drawn, [](auto i) { return i < kSamples / 2; })) / kSamples;
  }
  // 0.8 of the first draw, a little less as heavy samples are used up (0.789 by simulation of 1,000 epochs).
  EXPECT_NEAR(heavy, 0.789, 0.02);
}

TEST(DrawsTest, AllSamplesWithoutReplacementAreAShuffle) {
  DrawSampler sampler = sampler_of({.weights = std::vector<double>(100, 2), .replacement = false}, 0, 1, 7);
  const auto first = epoch_of(sampler), second = epoch_of(sampler);
  EXPECT_EQ(Samples(first.begin(), first.end()), whole(100));
  EXPECT_NE(first, second);
}

TEST(DrawsTest, EachSeedAndEpochDrawsOtherSamples) {
  for (const bool replacement : {false, true}) {
    std::set<std::vector<std::int64_t>> drawn;
    for (const std::uint64_t seed : {5, 6}) {
      SamplerOptions options = options_of(0, 1, 50);
      options.seed = seed;
      const std::vector<double> weights(100, 1);
      DrawSampler sampler(100, kFingerprint, {weights, replacement, 50}, options);
      for (int epoch = 0; epoch < 2; ++epoch) drawn.insert(epoch_of(sampler));
    }
    EXPECT_EQ(drawn.size(), 4U) << replacement;
  }
}

TEST(DrawsTest, StepsAreTheSameForAnyNumberOfRanks) {
  const DrawOptions draws = {.weights = balanced_weights(rare_classes()), .samples = 1000};
  DrawSampler alone = sampler_of(draws);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::deque<DrawSampler> three;
    for (int rank = 0; rank < 3; ++rank) three.emplace_back(kSamples, kFingerprint, draws, options_of(rank, 3, 20));
    for (auto& sampler : three) sampler.set_epoch(epoch);
    while (const auto step = alone.next()) {
      std::vector<std::int64_t> together;
      for (auto& sampler : three) {
        const auto mine = sampler.next();
        ASSERT_TRUE(mine);
        EXPECT_EQ(mine->seed, step->seed);
        together.insert(together.end(), mine->indices.begin(), mine->indices.end());
      }
      EXPECT_EQ(Samples(together.begin(), together.end()), Samples(step->indices.begin(), step->indices.end()));
    }
  }
}

TEST(DrawsTest, ResumesInMidEpochOnOtherRanks) {
  const DrawOptions draws = {.weights = balanced_weights(rare_classes())};
  DrawSampler alone = sampler_of(draws);
  for (int step = 0; step < 5; ++step) (void)alone.next();
  const nlohmann::json state = alone.state(alone.position());
  const auto expected = alone.next()->indices;
  std::vector<std::int64_t> together;
  for (int rank = 0; rank < 4; ++rank) {
    DrawSampler sampler = sampler_of(draws, rank, 4, 15);
    sampler.load_state(state);
    const auto mine = sampler.next()->indices;
    together.insert(together.end(), mine.begin(), mine.end());
  }
  std::ranges::sort(together);
  EXPECT_EQ(together, expected);
}

TEST(DrawsTest, OtherWeightsResumeBetweenEpochsOnly) {
  DrawSampler drawn = sampler_of({.weights = balanced_weights(rare_classes())});
  GlobalSampler shuffled(kSamples, kFingerprint, {.batchsize = 60, .seed = 5, .order = {.shuffle = true}});
  (void)shuffled.next();
  EXPECT_THAT([&] { drawn.load_state(shuffled.state(shuffled.position())); },
              ThrowsMessage<DataError>(HasSubstr("drawn by other weights")));
  (void)drawn.next();
  EXPECT_THAT([&] { shuffled.load_state(drawn.state(drawn.position())); },
              ThrowsMessage<DataError>(HasSubstr("drawn by other weights")));
  DrawSampler once = sampler_of({.weights = balanced_weights(rare_classes()), .replacement = false});
  EXPECT_THROW(once.load_state(drawn.state(drawn.position())), DataError);
  const EpochPosition begin = {.epoch = 3};
  shuffled.load_state(drawn.state(begin));
  EXPECT_EQ(shuffled.epoch(), 3);
  drawn.load_state(shuffled.state(begin));
  EXPECT_EQ(drawn.epoch(), 3);
}

TEST(DrawsTest, BadWeightsAreRefused) {
  const auto make = [](const DrawOptions& draws) { (void)data::Draws(draws, 4); };
  EXPECT_THAT([&] { make({.weights = {1, 2}}); }, ThrowsMessage<UsageError>(HasSubstr("2 weights for 4 samples")));
  EXPECT_THAT([&] { make({.weights = {1, 2, -1, 0}}); }, ThrowsMessage<UsageError>(HasSubstr("sample 2 is -1")));
  EXPECT_THAT([&] { make({.weights = {1, NAN, 1, 0}}); }, ThrowsMessage<UsageError>(HasSubstr("sample 1")));
  EXPECT_THAT([&] { make({.weights = {0, 0, 0, 0}}); }, ThrowsMessage<UsageError>(HasSubstr("above 0")));
  EXPECT_THAT(
      [&] {
        make({.weights = {1, 1, 0, 0}, .replacement = false});
      },
      ThrowsMessage<UsageError>(HasSubstr("draw fewer, or with replacement")));
  EXPECT_THAT([&] { make({.weights = {1e308, 1e308, 1, 1}}); }, ThrowsMessage<UsageError>(HasSubstr("too large")));
  EXPECT_THAT(
      [&] {
        make({.weights = {1, 1, 1, 1}, .samples = -3});
      },
      ThrowsMessage<UsageError>(HasSubstr("can't have -3 draws")));
  EXPECT_THROW((void)balanced_weights(std::vector<std::int64_t>{0, -3}), ArgumentError);
}

}  // namespace
}  // namespace mn
