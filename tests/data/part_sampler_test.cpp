// Steps over parts that lie in the ranks' memory, and the lengths of an epoch's last steps.
#include <cstdlib>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/sampler.hpp>

#include "tests/data/samples.hpp"

namespace mn {
namespace {

/// Sizes of an epoch's steps, over all ranks; checks: each sample comes once, and a state from after any step continues
/// with the next step.
template <class Make>
std::vector<std::int64_t> step_sizes(std::int64_t n, int ranks, Make make) {
  std::vector<std::int64_t> sizes;
  std::int64_t seen = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto sampler = make(rank);
    sizes.resize(static_cast<std::size_t>(sampler->steps_per_epoch()));
    std::size_t k = 0;
    while (const auto step = sampler->next()) {
      const auto resumed = make(rank);
      if (k > 0) resumed->load_state(sampler->state({.epoch = 0, .consumed = seen}));
      EXPECT_EQ(resumed->next().value().indices, step->indices);
      seen = step->consumed;
      EXPECT_EQ(step->ends_epoch, k + 1 == sizes.size());
      sizes.at(k++) += static_cast<std::int64_t>(step->indices.size());
    }
    EXPECT_EQ(k, sizes.size());
    EXPECT_EQ(seen, n);
  }
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), n);
  return sizes;
}

TEST(Sampler, TheLastTwoStepsShareWhatIsLeft) {
  using Sizes = std::vector<std::int64_t>;
  for (const int ranks : {1, 2, 3}) {
    for (const auto& [n, expected] : {std::pair<std::int64_t, Sizes>{5, {5}},
                                      {12, {12}},
                                      {13, {7, 6}},
                                      {24, {12, 12}},
                                      {25, {12, 7, 6}},
                                      {35, {12, 12, 11}},
                                      {36, {12, 12, 12}}}) {
      const SamplerOptions options{.batchsize = 12 / ranks, .ranks = ranks, .order = {}};
      const auto global = [&, n = n](int rank) {
        auto mine = options;
        mine.rank = rank;
        return std::make_unique<GlobalSampler>(n, kFingerprint, mine);
      };
      EXPECT_EQ(step_sizes(n, ranks, global), expected) << n << " samples, " << ranks << " ranks";
      std::vector<std::int64_t> parts;
      for (int rank = 0; rank < ranks; ++rank) parts.push_back(n * (rank + 1) / ranks - n * rank / ranks);
      const auto part = [&](int rank) {
        auto mine = options;
        mine.rank = rank;
        return std::make_unique<PartSampler>(parts, kFingerprint, mine);
      };
      const Sizes sizes = step_sizes(n, ranks, part);
      EXPECT_EQ(sizes.size(), expected.size());
      if (sizes.size() > 1) {
        EXPECT_LE(std::abs(sizes.end()[-1] - sizes.end()[-2]), 2 * ranks);
      }
    }
  }
}

TEST(PartSampler, WalksEachPartOnceInEqualSteps) {
  const std::vector<std::int64_t> parts = {4, 5, 4};
  for (const std::int64_t b : {1, 2, 3, 4, 5, 6}) {
    std::set<std::int64_t> steps_seen;
    for (int rank = 0; rank < 3; ++rank) {
      PartSampler sampler(parts, 1, {.batchsize = b, .rank = rank, .ranks = 3, .order = {.shuffle = true}});
      for (int epoch = 0; epoch < 2; ++epoch) {
        Samples seen;
        std::int64_t steps = 0;
        std::int64_t consumed = 0;
        for (auto step = sampler.next(); step; step = sampler.next(), ++steps) {
          seen.insert(step->indices.begin(), step->indices.end());
          consumed = step->consumed;
          EXPECT_EQ(step->ends_epoch, consumed == 13);
          EXPECT_EQ(step->epoch, epoch);
        }
        EXPECT_EQ(seen, whole(parts[rank]));
        EXPECT_EQ(consumed, 13);
        EXPECT_EQ(steps, sampler.steps_per_epoch());
        steps_seen.insert(steps);
      }
    }
    EXPECT_EQ(steps_seen.size(), 1u) << "the same number of steps on all ranks";
  }
}

TEST(PartSampler, ResumesInMidEpochOnlyAlike) {
  const SamplerOptions options{.batchsize = 2, .rank = 0, .ranks = 2, .order = {.shuffle = true}};
  PartSampler sampler({5, 5}, 1, options);
  (void)sampler.next();
  const auto state = sampler.state(sampler.position());
  const auto expected = sampler.next()->indices;

  PartSampler same({5, 5}, 1, options);
  same.load_state(state);
  EXPECT_EQ(same.next()->indices, expected);

  PartSampler other({10}, 1, {.batchsize = 2, .rank = 0, .ranks = 1, .order = {.shuffle = true}});
  EXPECT_THROW(other.load_state(state), DataError);
  EXPECT_NO_THROW(other.load_state(sampler.state({.epoch = 3})));
  EXPECT_EQ(other.epoch(), 3);
}

}  // namespace
}  // namespace mn
