// Steps over shared data for any number of ranks, epochs, and resuming with others.
#include <algorithm>
#include <cstdlib>
#include <memory>
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

data::OrderOptions lanes_order() { return {.shuffle = true, .sticky = false, .block = 8, .window = 4, .lanes = 16}; }

/// All ranks of a job, stepping together.
class Ranks {
 public:
  Ranks(std::int64_t n, int ranks, std::int64_t batchsize, const data::OrderOptions& order, bool drop_last = false) {
    for (int rank = 0; rank < ranks; ++rank) {
      const SamplerOptions options{
          .batchsize = batchsize, .rank = rank, .ranks = ranks, .seed = 5, .drop_last = drop_last, .order = order};
      samplers_.push_back(std::make_unique<GlobalSampler>(n, kFingerprint, options));
    }
  }

  /// The samples of the next step by rank; empty at the end of an epoch.
  std::vector<std::vector<std::int64_t>> next() {
    std::vector<std::vector<std::int64_t>> step;
    for (auto& sampler : samplers_) {
      auto mine = sampler->next();
      if (mine) step.push_back(mine->indices);
    }
    EXPECT_TRUE(step.empty() || step.size() == samplers_.size()) << "the ranks disagree about the epoch's end";
    return step;
  }

  nlohmann::json state() const { return samplers_[0]->state(samplers_[0]->epoch(), samplers_[0]->consumed()); }
  void load(const nlohmann::json& state) {
    for (auto& sampler : samplers_) sampler->load_state(state);
  }
  GlobalSampler& operator[](int rank) { return *samplers_[rank]; }

 private:
  std::vector<std::unique_ptr<GlobalSampler>> samplers_;
};

Samples together(const std::vector<std::vector<std::int64_t>>& step) {
  Samples all;
  for (const auto& part : step) all.insert(part.begin(), part.end());
  return all;
}

TEST(GlobalSampler, StepsHoldTheSameSamplesForAnyNumberOfRanks) {
  const std::int64_t n = 10007, global_batch = 192;
  for (const auto& order : {data::OrderOptions{}, data::OrderOptions{.shuffle = true}, lanes_order()}) {
    for (const int ranks : {2, 3, 4, 64}) {
      Ranks one(n, 1, global_batch, order), many(n, ranks, global_batch / ranks, order);
      for (int step = 0; step < 120; ++step) {  // two epochs and a bit
        const auto expected = one.next();
        const auto found = many.next();
        EXPECT_EQ(together(found), together(expected)) << ranks << " ranks, step " << step;
      }
    }
  }
}

TEST(GlobalSampler, SevenRanksCoverTheirStepsEvenly) {
  Ranks ranks(1000, 7, 10, lanes_order());
  Samples seen;
  int steps = 0;
  for (auto step = ranks.next(); !step.empty(); step = ranks.next(), ++steps) {
    const auto [least, most] =
        std::minmax_element(step.begin(), step.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    EXPECT_LE(most->size() - least->size(), 1u);
    seen.merge(together(step));
  }
  EXPECT_EQ(steps, 15);
  EXPECT_EQ(ranks[0].steps_per_epoch(), 15);
  EXPECT_EQ(seen, whole(1000));
}

TEST(GlobalSampler, ALastStepMayLeaveRanksWithoutASample) {
  Ranks ranks(10, 4, 2, {});
  EXPECT_EQ(ranks.next().size(), 4u);
  const auto last = ranks.next();
  EXPECT_EQ(last, (std::vector<std::vector<std::int64_t>>{{8}, {9}, {}, {}}));
  EXPECT_TRUE(ranks.next().empty());
  EXPECT_EQ(ranks[0].epoch(), 1);
  EXPECT_EQ(ranks.next().size(), 4u) << "the next call begins the next epoch";
}

TEST(GlobalSampler, DropLastLeavesTheShortStepOut) {
  Ranks ranks(10, 2, 2, {}, true);
  EXPECT_EQ(ranks[0].steps_per_epoch(), 2);
  EXPECT_EQ(together(ranks.next()).size(), 4u);
  EXPECT_EQ(together(ranks.next()).size(), 4u);
  EXPECT_TRUE(ranks.next().empty());
}

TEST(GlobalSampler, ResumesInMidEpochWithOtherRanksAndBatchSizes) {
  const std::int64_t n = 10007;
  struct Other {
    int ranks;
    std::int64_t batchsize;
  };
  for (const Other other : {Other{3, 50}, Other{1, 7}, Other{7, 64}}) {
    Ranks before(n, 2, 50, lanes_order());
    Samples seen;
    for (int step = 0; step < 37; ++step) seen.merge(together(before.next()));
    const nlohmann::json state = nlohmann::json::parse(before.state().dump());

    Ranks after(n, other.ranks, other.batchsize, data::OrderOptions{.shuffle = true});  // the order is the state's
    after.load(state);
    for (auto step = after.next(); !step.empty(); step = after.next()) seen.merge(together(step));
    EXPECT_EQ(seen, whole(n)) << other.ranks << " ranks";

    for (auto step = before.next(); !step.empty(); step = before.next()) {
    }
    Ranks one(n, 1, 100, lanes_order());
    for (auto step = one.next(); !step.empty(); step = one.next()) {
    }
    EXPECT_EQ(together(before.next()), together(one.next())) << "the epoch after is the one it would have been";
  }
}

TEST(GlobalSampler, EpochsDifferAndCanBeSet) {
  Ranks ranks(1000, 1, 1000, {.shuffle = true}), other(1000, 1, 1000, {.shuffle = true});
  const auto first = ranks.next();
  (void)ranks.next();
  const auto second = ranks.next();
  EXPECT_NE(first, second);
  other[0].set_epoch(1);
  EXPECT_EQ(other.next(), second);
}

TEST(GlobalSampler, AStepSaysWhereItStands) {
  GlobalSampler sampler(10, 1, {.batchsize = 4, .seed = 9, .order = {}});
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (const std::int64_t consumed : {4, 8, 10}) {
      const auto step = sampler.next();
      ASSERT_TRUE(step);
      EXPECT_EQ(step->epoch, epoch);
      EXPECT_EQ(step->consumed, consumed);
      EXPECT_EQ(step->ends_epoch, consumed == 10);
      EXPECT_EQ(step->seed, 9u);
    }
    EXPECT_FALSE(sampler.next());
  }
}

TEST(GlobalSampler, ARankOwnsItsLanes) {
  const int ranks = 4;
  Ranks job(10007, ranks, 25, lanes_order());
  std::vector<std::set<std::int64_t>> blocks(ranks);
  for (auto step = job.next(); !step.empty(); step = job.next()) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const std::int64_t i : step[rank]) blocks[rank].insert(i / 8);
    }
  }
  std::size_t touched = 0;
  for (const auto& own : blocks) touched += own.size();
  EXPECT_LT(touched, 10007 / 8 * 2u) << "a block is read by one rank, or by two at a lane's border";
}

TEST(GlobalSampler, NamesWhatIsWrong) {
  const auto message = [](std::int64_t n, const SamplerOptions& options) -> std::string {
    try {
      const GlobalSampler sampler(n, 1, options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(3, {.batchsize = 1, .rank = 0, .ranks = 4, .order = {}}),
              testing::AllOf(HasSubstr("ranks (4)"), HasSubstr("samples (3)")));
  EXPECT_THAT(message(3, {.batchsize = 0, .order = {}}), HasSubstr("batch size 0"));
  EXPECT_THAT(message(10, {.batchsize = 6, .ranks = 2, .drop_last = true, .order = {}}),
              HasSubstr("smaller batch size"));
}

TEST(GlobalSampler, RejectsForeignAndDamagedStates) {
  Ranks ranks(100, 1, 10, {});
  const nlohmann::json good = ranks.state();
  nlohmann::json foreign = good, damaged = good, beyond = good, zero = good;
  foreign["dataset"] = "0000000000000001";
  damaged.erase("epoch");
  beyond["consumed"] = 101;
  zero["lanes"] = 0;
  for (const auto& bad : {foreign, damaged, beyond, zero, nlohmann::json("text"), nlohmann::json()}) {
    EXPECT_THROW(ranks.load(bad), DataError) << bad;
  }
  EXPECT_NO_THROW(ranks.load(good));
}

}  // namespace
}  // namespace mn
