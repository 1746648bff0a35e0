// State that differs by rank, and values of all ranks' minibatches, in extensions and their checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/rank_state.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using extensions::RankState;
using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

constexpr std::int64_t kRows = 12;

/// Rows 0 to 11 of all ranks; this rank's rows are [rows, 2].
at::Tensor rows_of(const Communicator& comm) {
  const std::int64_t own = kRows / comm.size();
  return torch::arange(2 * kRows).reshape({kRows, 2}).narrow(0, comm.rank() * own, own).to(torch::kFloat);
}

class RankStateTest : public testing::Test {
 protected:
  /// A checkpoint of the first size − 1 ranks, or of all ranks.
  std::string save(bool all) {
    const std::string path = checkpoint_path(folder_.path(), 0).string();
    const auto comm = all ? world() : world()->split(world()->rank() < world()->size() - 1 ? 0 : -1, world()->rank());
    if (comm) {
      ToyJob job(comm, {.trainer = {.iterations = 3, .out = folder_.path()}});
      at::Tensor rows = rows_of(*comm), none;
      job.trainer->extend(std::make_unique<RankState>("rows", RankState::Tensors{{"rows", &rows}, {"none", &none}}));
      job.trainer->save(path);
    }
    world()->barrier();
    return path;
  }

  TestFolder folder_{world()};
  toy::ToyOptions options_ = {.trainer = {.iterations = 3, .out = folder_.path()}};
};

TEST_F(RankStateTest, IsAssignedByResumeAndByALaterExtend) {
  const std::string path = save(true);
  for (const bool later : {false, true}) {
    ToyJob job(world(), options_);
    at::Tensor rows, none = torch::ones({1});
    const auto extend = [&] {
      job.trainer->extend(std::make_unique<RankState>("rows", RankState::Tensors{{"rows", &rows}, {"none", &none}}));
    };
    if (!later) extend();
    EXPECT_TRUE(job.trainer->resume(path));
    if (later) extend();
    ASSERT_TRUE(rows.defined());
    EXPECT_TRUE(rows.equal(rows_of(*world())));
    EXPECT_TRUE(none.equal(torch::ones({1}))) << "was not defined when it was saved";
    const std::string again = (folder_.path() / "again").string();  // before a run
    job.trainer->save(again);
    rows.zero_();
    EXPECT_TRUE(job.trainer->resume(again));
    EXPECT_TRUE(rows.equal(rows_of(*world())));
    EXPECT_EQ(job.trainer->run(), 0);
  }
}

TEST_F(RankStateTest, OfAnotherNumberOfRanksIsRejectedOrMapped_from_2_ranks) {
  const std::string path = save(false),
                    sizes = std::to_string(world()->size() - 1) + " and is " + std::to_string(world()->size());
  const auto resume = [&](const RankState::Map& map) {
    ToyJob job(world(), options_);
    at::Tensor rows;
    job.trainer->extend(std::make_unique<RankState>("rows", RankState::Tensors{{"rows", &rows}}, map));
    EXPECT_TRUE(job.trainer->resume(path));
    return rows;
  };
  EXPECT_THAT([&] { resume({}); },
              ThrowsMessage<DataError>(HasSubstr("\"rows\" differs by rank, and the number of ranks was " + sizes)));
  const RankState::Map one_row = [](const std::vector<NamedTensors>& saved, const Communicator& comm) {
    return RankState::divide_along(0)({{{"row", saved[0][0].second.narrow(0, 0, 1)}}}, comm);
  };
  EXPECT_THAT([&] { resume(one_row); },
              ThrowsMessage<DataError>(HasSubstr("\"row\" of all ranks has length 1 along dimension 0, which ")));
  EXPECT_TRUE(resume(RankState::divide_along(0)).equal(rows_of(*world())));
}

TEST_F(RankStateTest, NeedsANameAndTensors) {
  at::Tensor rows;
  EXPECT_THROW(RankState("", {{"rows", &rows}}), ArgumentError);
  EXPECT_THROW(RankState("rows", {}), ArgumentError);
  EXPECT_THROW(RankState("rows", {{"rows", nullptr}}), ArgumentError);
}

/// Keeps the values of each period.
struct Observer final : Extension {
  std::vector<Metrics> seen;
  std::int64_t runs = 0;
  [[nodiscard]] std::string name() const override { return "Observer"; }
  [[nodiscard]] Interval trigger() const override { return {5, IntervalUnit::kIteration}; }
  [[nodiscard]] bool observes_all() const override { return true; }
  void observe_all(Trainer&, const Metrics& values) override { seen.push_back(values); }
  void run(Trainer&) override { EXPECT_EQ(std::ssize(seen), ++runs) << "observe_all() comes before run()"; }
};

TEST_F(RankStateTest, ObserveAllHasTheLogsValuesAndContinuesAfterAResume) {
  const auto train = [&](std::int64_t iterations, bool resumes) {
    options_.trainer.iterations = iterations;
    ToyJob job(world(), options_);
    const auto& observer = job.trainer->extend(std::make_unique<Observer>());
    const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = observer.trigger()});
    job.trainer->extend(std::make_unique<extensions::Snapshot>());
    EXPECT_EQ(job.trainer->resume("auto"), resumes);
    EXPECT_EQ(job.trainer->run(), 0);
    for (const Metrics& values : observer.seen) EXPECT_EQ(values.size(), 2u);
    if (!observer.seen.empty() && iterations % 5 == 0) {
      for (const auto& [name, value] : observer.seen.back()) EXPECT_EQ(value, log.last(name)) << name;
    }
    return observer.seen;
  };
  const auto expected = train(10, false);
  EXPECT_EQ(expected.size(), 2u);
  if (world()->rank() == 0) std::filesystem::remove_all(folder_.path() / "ckpt");
  world()->barrier();
  EXPECT_EQ(train(7, false).size(), 1u);
  const auto resumed = train(10, true);
  ASSERT_EQ(resumed.size(), 1u);
  for (const auto& [name, value] : resumed.front()) EXPECT_DOUBLE_EQ(value, expected.back().at(name)) << name;
}

}  // namespace
}  // namespace mn
