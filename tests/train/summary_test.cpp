// Means, sums, minima and maxima of a minibatch's values, on one rank and over all ranks.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;
using toy::TestFolder;
using toy::world;

TEST(Summary, CombinesEachKindOverRanks) {
  const int rank = world()->rank(), size = world()->size();
  Summary summary;
  for (const int value : {rank, rank + 10}) {
    summary.add("mean", torch::tensor(value), rank + 1);
    summary.add_sum("sum", value);
    summary.add_min("least", torch::tensor(value - 5));
    summary.add_max("most", value);
  }
  if (rank == 0) summary.add_max("only on rank 0", torch::tensor(-3.0));
  EXPECT_THAT(summary.mean(), testing::IsSupersetOf({Pair("sum", 2.0 * rank + 10), Pair("least", rank - 5.0)}));

  double weighted = 0, weight = 0, sum = 0;
  for (int r = 0; r < size; ++r) {
    weighted += (2 * r + 10) * (r + 1);
    weight += 2 * (r + 1);
    sum += 2 * r + 10;
  }
  EXPECT_THAT(summary.mean_over_ranks(*world()),
              ElementsAre(Pair("least", -5), Pair("mean", weighted / weight), Pair("most", size + 9),
                          Pair("only on rank 0", -3), Pair("sum", sum)));
}

TEST(Summary, NaNStaysInAMinimumAndAMaximum) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& values : {std::vector<double>{1, nan, 2}, {nan, 1, 2}, {1, 2, nan}}) {
    Summary summary, merged;
    for (const double value : values) {
      summary.add_min("least", value);
      summary.add_max("most", value);
    }
    merged.load_state(nlohmann::json::parse(summary.state().dump()));  // NaN is null in a checkpoint's text
    for (const auto& [name, value] : merged.mean()) EXPECT_TRUE(std::isnan(value)) << name;
  }
}

TEST(Summary, ANameHasOneKind) {
  Summary summary;
  summary.add_sum("boxes", 1);
  EXPECT_THAT([&] { summary.add("boxes", 1); },
              ThrowsMessage<ArgumentError>(HasSubstr("\"boxes\" is added as a sum and as a mean")));
}

TEST(Summary, RanksThatDifferInAKindAllThrow_from_2_ranks) {
  Summary summary;
  world()->rank() == 0 ? summary.add_min("boxes", 1) : summary.add_max("boxes", 1);
  EXPECT_THAT([&] { static_cast<void>(summary.mean_over_ranks(*world())); },
              ThrowsMessage<ArgumentError>(HasSubstr("a minimum and as a maximum")));
}

/// 50 samples an epoch in a report, whatever the number of ranks, and over a resume within the epoch.
TEST(Summary, OfATrainingIsEqualForAnyNumberOfRanksAndOverAResume) {
  const TestFolder folder(world());
  const auto last_report = [&](std::int64_t iterations, bool resume) {
    const auto model = std::make_shared<toy::ToyNet>(false);
    const auto loss = [model](const Batch& batch, Summary& report) {
      report.add_sum("samples", static_cast<double>(batch.samples));
      report.add_max("largest target", batch.target.max());
      report.add_min("least input", batch.data.min());
      return model->forward(batch.data).pow(2).mean();
    };
    Trainer trainer(world(),
                    create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), 0.1), world()),
                    std::make_shared<toy::ToyIterator>(50, 4, *world()), model, loss,
                    {.iterations = iterations, .out = folder.path()});
    const auto& log = trainer.extend(std::make_unique<extensions::LogReport>());
    trainer.extend(std::make_unique<extensions::Snapshot>());
    for (int i = 0; i < 2; ++i) EXPECT_EQ(trainer.resume("auto"), resume) << "a second time as the first";
    EXPECT_EQ(trainer.run(), 0);
    return std::array{log.last("main/samples"), log.last("main/largest target"), log.last("main/least input")};
  };
  const std::int64_t steps = toy::ToyIterator(50, 4, *world()).steps_per_epoch();
  static_cast<void>(last_report(steps - 2, false));
  double least = 1;
  for (int sample = 0; sample < 50; ++sample) {
    least = std::min(least, torch::sin(torch::arange(6) * (sample + 1)).min().item<double>());
  }
  EXPECT_THAT(last_report(steps, true), ElementsAre(50, 2, least));
}

}  // namespace
}  // namespace mn
