// A search for the learning rate: the numbers of Lightning, and a training that is as before.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/trainer/extensions/rate_finder.hpp>

#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using extensions::LogReport;
using extensions::RateFinder;
using extensions::RateFinderOptions;
using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::ToyJob;
using toy::world;

const Interval kAlways(1, IntervalUnit::kIteration);

class RateFinderTest : public toy::CheckpointTest {
 protected:
  /// A job whose loss has the value of `loss_of` in each iteration, with 1 more or less on the first and last rank.
  std::unique_ptr<Trainer> trainer_with(const std::function<double(std::int64_t)>& loss_of) const {
    const auto model = std::make_shared<torch::nn::LinearImpl>(2, 2);
    auto sgd = std::make_unique<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.1));
    const double other = (world()->rank() == 0 ? 1 : 0) - (world()->rank() == world()->size() - 1 ? 1 : 0);
    return std::make_unique<Trainer>(
        world(), create_multi_node_optimizer(std::move(sgd), world()),
        std::make_shared<toy::ToyIterator>(8 * world()->size(), 1, *world()), model,
        [=, i = std::int64_t{0}](const Batch&, Summary&) mutable {
          return model->weight.sum() * 0 + (loss_of(i++) + other);
        },
        TrainerOptions{.iterations = 1000, .out = folder_.path()});
  }
  static RateFinder& search_in(Trainer& trainer, const RateFinderOptions& options) {
    const auto& log = trainer.extend(std::make_unique<LogReport>(), {.trigger = kAlways});
    return trainer.extend(std::make_unique<RateFinder>(log, options));
  }
};

/// Lightning's _LRCallback (beta 0.98) and suggestion(skip_begin=10, skip_end=1), computed with numpy.
TEST_F(RateFinderTest, ProposesTheRateOfTheSteepestFallAsLightningDoes) {
  const auto trainer = trainer_with([](std::int64_t i) {
    return i < 30 ? 2 + std::cos(static_cast<double>(i) / 7) + (i % 3 == 0 ? 0.05 : 0)
                  : 2.0 * static_cast<double>(i - 25);
  });
  const RateFinder& finder = search_in(*trainer, {.first = 1e-3, .last = 10, .steps = 40, .smoothing = 0.98});
  EXPECT_EQ(trainer->run(), 0);
  EXPECT_EQ(finder.rates().size(), 40U);
  EXPECT_DOUBLE_EQ(finder.rates().front(), 1e-3);
  EXPECT_DOUBLE_EQ(finder.rates().back(), 10);
  EXPECT_NEAR(finder.smoothed()[10], 2.6808796142713045, 1e-5);
  EXPECT_NEAR(finder.smoothed().back(), 7.52988606754575, 1e-5);
  EXPECT_NEAR(finder.proposal().value_or(0), 0.04375479375074185, 1e-9);
  if (world()->rank() != 0) return;
  const auto file = nlohmann::json::parse(read_file(folder_.path() / "rate_search.json"));
  EXPECT_EQ(file.at("losses").size(), 40U);
  EXPECT_EQ(file.at("proposed").get<double>(), finder.proposal());
}

TEST_F(RateFinderTest, AFallAfterASpikeIsNoProposal) {
  const auto trainer = trainer_with([](std::int64_t i) {
    const auto step = static_cast<double>(i);
    return i < 60 ? 3 - 0.01 * step : i < 65 ? 9 : std::max(9 - 0.5 * (step - 65), 2.6);
  });
  const RateFinder& finder = search_in(*trainer, {.smoothing = 0.5});
  EXPECT_EQ(trainer->run(), 0);
  EXPECT_EQ(finder.rates().size(), 100U);
  EXPECT_LT(finder.proposal().value_or(10), finder.rates()[60]);
}

TEST_F(RateFinderTest, EndsWhereTheLossDivergesOrIsNotFinite) {
  for (const double jump : {1e4, std::nan("")}) {
    const auto trainer =
        trainer_with([=](std::int64_t i) { return i < 25 ? 3 - 0.05 * static_cast<double>(i) : jump; });
    const RateFinder& finder = search_in(*trainer, {});
    EXPECT_EQ(trainer->run(), 0);
    EXPECT_EQ(trainer->iteration(), 26);
    EXPECT_THAT(trainer->end_reason(), HasSubstr(std::isnan(jump) ? "the loss is not finite" : "has diverged"));
    EXPECT_TRUE(finder.proposal());
  }
  const auto rising = trainer_with([](std::int64_t i) { return 1 + 0.01 * static_cast<double>(i); });
  const RateFinder& without = search_in(*rising, {.steps = 30});
  EXPECT_EQ(rising->run(), 0);
  EXPECT_EQ(without.proposal(), std::nullopt);
}

/// With dropout, a buffer, momentum, and a number of iterations that ends within an epoch.
TEST_F(RateFinderTest, ATrainingAfterwardsIsTheOneWithoutASearch) {
  for (const OptimizerOptions& how : {OptimizerOptions{}, OptimizerOptions{.local_steps = 2, .outer_momentum = 0.5},
                                      OptimizerOptions{.compression = {.kind = Compression::kBf16}}}) {
    for (const bool sgd : {false, true}) {
      options_ = {.noise = true, .sgd = sgd, .fused = true, .trainer = {.iterations = 7, .out = folder_.path()}};
      options_.optimizer = how;
      ToyJob usual(world(), options_), searched(world(), options_);
      const auto random = random_state(world()->device());  // one process has the generators of both jobs
      EXPECT_EQ(usual.trainer->run(), 0);
      set_random_state(random, world()->device());
      const auto loss = [net = searched.model](const Batch& batch, Summary&) {
        return torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      };
      const auto optimizer = searched.trainer->optimizers().front().optimizer;
      {
        Trainer search(world(), optimizer, searched.iterator, searched.model, loss,
                       {.iterations = 20, .out = folder_.path() / "search"});
        search_in(search, {.last = 0.5, .steps = 20});
        const at::Tensor before = searched.weights();
        search.extend("look", {20, "iteration"},
                      [&](Trainer&) { EXPECT_FALSE(searched.weights().equal(before)) << "the search trains"; });
        EXPECT_EQ(search.run(), 0);
        EXPECT_TRUE(searched.weights().equal(before));
      }
      EXPECT_EQ(searched.trainer->run(), 0);
      EXPECT_TRUE(searched.weights().equal(usual.weights())) << sgd;
      EXPECT_TRUE(searched.model->running_mean.equal(usual.model->running_mean));
    }
  }
}

TEST_F(RateFinderTest, WrongUsesAreErrorsOnEveryRank) {
  const LogReport log;
  for (const RateFinderOptions& wrong :
       {RateFinderOptions{.first = 0}, RateFinderOptions{.first = 2, .last = 1}, RateFinderOptions{.steps = 5},
        RateFinderOptions{.smoothing = 1}, RateFinderOptions{.diverged = 1}}) {
    EXPECT_THAT([&] { RateFinder(log, wrong); }, ThrowsMessage<UsageError>(HasSubstr("at least 20 steps")));
  }
  const auto trainer = trainer_with([](std::int64_t) { return 1; });
  const auto& seldom = trainer->extend(std::make_unique<LogReport>());
  trainer->extend(std::make_unique<RateFinder>(seldom));
  EXPECT_THAT([&] { static_cast<void>(trainer->run()); },
              ThrowsMessage<UsageError>(HasSubstr("needs a LogReport that runs in each iteration")));
}

}  // namespace
}  // namespace mn
