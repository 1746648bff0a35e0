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
#include <mn/core/random.hpp>
#include <mn/data/sampler.hpp>
#include <mn/data/step_division.hpp>

#include "tests/data/samples.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using testing::HasSubstr;

data::OrderOptions lanes_order() { return {.shuffle = true, .lanes = 24, .adjacent = 2, .windows = 5}; }

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

  nlohmann::json state() const { return samplers_[0]->state(samplers_[0]->position()); }
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
    for (const int ranks : {2, 3, 4, 8, 16, 32, 64}) {
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

TEST(GlobalSampler, EveryRankHasASampleInEveryStep) {
  for (const int count : {2, 3, 4, 7}) {
    for (const std::int64_t batchsize : {2, 3, 5}) {
      for (std::int64_t n = count; n < 4 * count * batchsize; ++n) {
        Ranks ranks(n, count, batchsize, {});
        for (auto step = ranks.next(); !step.empty(); step = ranks.next()) {
          for (const auto& own : step) EXPECT_FALSE(own.empty()) << n << " samples, " << count << " × " << batchsize;
        }
      }
    }
  }
}

/// Single samples can't be shared.
TEST(GlobalSampler, WithABatchSizeOfOneTheLastStepsMayLeaveRanksWithoutASample) {
  Ranks ranks(9, 4, 1, {});
  EXPECT_EQ(ranks.next().size(), 4u);
  EXPECT_EQ(ranks.next(), (std::vector<std::vector<std::int64_t>>{{4}, {5}, {6}, {}}));
  EXPECT_EQ(ranks.next(), (std::vector<std::vector<std::int64_t>>{{7}, {}, {8}, {}}));
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
    for (const std::int64_t consumed : {4, 7, 10}) {
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

/// Blocks of 8 samples that the ranks touch in an epoch, over the number of blocks.
double blocks_touched(std::int64_t n, int ranks, std::int64_t batchsize, const data::OrderOptions& order) {
  Ranks job(n, ranks, batchsize, order);
  std::vector<std::set<std::int64_t>> blocks(ranks);
  for (auto step = job.next(); !step.empty(); step = job.next()) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const std::int64_t i : step[rank]) blocks[rank].insert(i / 8);
    }
  }
  double touched = 0;
  for (const auto& own : blocks) touched += static_cast<double>(own.size());
  return touched / (static_cast<double>(n) / 8);
}

TEST(GlobalSampler, ARankOwnsItsLanes) {
  const std::int64_t n = 20000;
  const data::OrderOptions order{.shuffle = true, .lanes = 96, .adjacent = 2, .windows = 1};
  for (const int ranks : {1, 2, 3, 4, 6, 8, 12, 16}) {
    for (const std::int64_t batchsize : {1, 5, 32}) {
      EXPECT_LT(blocks_touched(n, ranks, batchsize, order), 1.06)
          << ranks << " ranks, batch size " << batchsize
          << ": a block is read by one rank, or by two at a lane's border";
    }
  }
  // Others share some lanes: about as many blocks are read twice as there are ranks for each lane.
  for (const int ranks : {5, 7, 9, 10, 13}) {
    EXPECT_LT(blocks_touched(n, ranks, 5, order), 1.06 + 1.2 * ranks / 96) << ranks << " ranks";
  }
  EXPECT_GT(blocks_touched(n, 4, 5, {.shuffle = true}), 3.5) << "the measure recognizes an order without lanes";
}

TEST(GlobalSampler, StoredSamplesAreDividedInRuns) {
  Ranks ranks(1000, 3, 10, {});
  const auto step = ranks.next();
  for (int rank = 0; rank < 3; ++rank) {
    for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(step[rank][i], rank * 10 + i);
  }
}

TEST(DivideLanes, GivesEverySampleToOneRankAndEachItsShare) {
  SplitMix64 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<std::int64_t> counts(1 + random.next() % 40);
    std::int64_t total = 0;
    for (auto& count : counts) total += count = static_cast<std::int64_t>(random.next() % 5);
    const int ranks = static_cast<int>(1 + random.next() % 50);
    std::vector<std::vector<bool>> dealt;
    for (const std::int64_t count : counts) dealt.emplace_back(count, false);
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t mine = 0;
      for (const data::LanePiece& piece : data::divide_lanes(counts, rank, ranks)) {
        for (std::int64_t i = piece.first; i < piece.first + piece.count; ++i, ++mine) {
          EXPECT_FALSE(dealt[piece.lane].at(i));
          dealt[piece.lane].at(i) = true;
        }
      }
      EXPECT_GE(mine, total / ranks);
      EXPECT_LE(mine, (total + ranks - 1) / ranks);
    }
    for (const auto& lane : dealt) EXPECT_EQ(std::count(lane.begin(), lane.end(), false), 0);
  }
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
  nlohmann::json foreign = good, damaged = good, beyond = good, zero = good, uneven = good, endless = good;
  foreign["dataset"] = "0000000000000001";
  damaged.erase("epoch");
  beyond["consumed"] = 101;
  zero["lanes"] = 0;
  uneven["lanes"] = 7;
  uneven["adjacent"] = 2;
  endless["windows"] = std::int64_t{1} << 50;
  for (const auto& bad : {foreign, damaged, beyond, zero, uneven, endless, nlohmann::json("text"), nlohmann::json()}) {
    EXPECT_THROW(ranks.load(bad), DataError) << bad;
  }
  EXPECT_NO_THROW(ranks.load(good));
}

TEST(SamplerTest, TooFewSamplesAreNamed) {
  EXPECT_THAT(test::message_of<UsageError>([] { Ranks(0, 1, 1, {}); }), HasSubstr("there are no samples"));
  EXPECT_THAT(test::message_of<UsageError>([] { Ranks(1, 2, 1, {}); }), HasSubstr("start at most 1 rank"));
}

}  // namespace
}  // namespace mn
