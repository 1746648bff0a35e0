// Values over all ranks by a function of one's own.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/observation_aggregator.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using extensions::ObservationAggregator;
using extensions::RankValues;
using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

double largest(const RankValues& values) {
  EXPECT_THAT(values, testing::Contains(testing::Not(testing::IsEmpty())));
  double most = 0;
  for (const auto& of_rank : values) {
    for (const double value : of_rank) most = std::max(most, value);
  }
  return most;
}

/// What each minibatch of this rank has.
struct Observer final : Extension {
  std::string name() const override { return "observer"; }
  void observe(const at::Tensor& loss, const Summary& metrics) override {
    losses.push_back(loss.item<double>());
    accuracies.push_back(metrics.mean().at("accuracy"));
  }
  std::vector<double> losses, accuracies;
};

TEST(ObservationAggregatorTest, GivesTheFunctionTheValuesOfEachRank) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.epochs = 2, .out = folder.path()}});
  const auto& observed = job.trainer->extend(std::make_unique<Observer>());
  RankValues last;
  job.trainer->extend(std::make_unique<ObservationAggregator>("main/loss", "main/largest_loss", largest));
  job.trainer->extend(
      std::make_unique<ObservationAggregator>("main/accuracy", "accuracies", [&](const RankValues& all) {
        last = all;
        return largest(all);
      }));
  const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>());
  EXPECT_EQ(job.trainer->run(), 0);
  const auto own = static_cast<std::ptrdiff_t>(observed.losses.size() / 2);  // of the second epoch
  const auto values = [&](const std::vector<double>& all) { return std::vector<double>(all.end() - own, all.end()); };
  RankValues losses, accuracies;
  for (const auto& theirs : world()->allgather_obj(nlohmann::json(values(observed.losses)))) losses.push_back(theirs);
  for (const auto& theirs : world()->allgather_obj(nlohmann::json(values(observed.accuracies)))) {
    accuracies.push_back(theirs);
  }
  EXPECT_EQ(log.entries().back().at("main/largest_loss"), largest(losses));
  EXPECT_EQ(log.entries().back().at("accuracies"), largest(accuracies));
  EXPECT_EQ(last, world()->rank() == 0 ? accuracies : RankValues());
}

TEST(ObservationAggregatorTest, AnErrorOfTheFunctionIsEveryRanks) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.epochs = 1, .out = folder.path()}});
  job.trainer->extend(std::make_unique<ObservationAggregator>(
      "main/loss", "x", [](const RankValues&) -> double { throw DataError("no median of nothing"); }));
  EXPECT_THAT([&] { static_cast<void>(job.trainer->run()); },
              ThrowsMessage<ArgumentError>(HasSubstr("no median of nothing")));
  for (const char* name : {"", "main/loss"}) {
    EXPECT_THROW(ObservationAggregator("main/loss", name, largest), ArgumentError) << name;
  }
  EXPECT_THROW(ObservationAggregator("loss", "x", largest), ArgumentError);
}

TEST(ObservationAggregatorTest, NamesTheValueThatAMisspeltOneMayBe) {
  const TestFolder folder(world());
  const auto train = [&](const char* key) {
    ToyJob job(world(), {.trainer = {.epochs = 1, .out = folder.path()}});
    job.trainer->extend(std::make_unique<ObservationAggregator>(key, "x", largest));
    return job.trainer->run();
  };
  for (const char* wrong : {"main/acuracy", "main/los"}) {
    EXPECT_THAT([&] { static_cast<void>(train(wrong)); },
                ThrowsMessage<ArgumentError>(testing::AllOf(HasSubstr(wrong), HasSubstr("; did you mean main/"))));
  }
  EXPECT_EQ(train("main/iou"), 0) << "it may come in a later epoch";
}

}  // namespace
}  // namespace mn
