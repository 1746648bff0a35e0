// Extensions that act on a metric: plateau, early end, the best checkpoint; averaged weights; rates of groups.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/error.hpp>
#include <mn/trainer/extensions/best_snapshot.hpp>
#include <mn/trainer/extensions/early_stopping.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/plateau.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/extensions/validation.hpp>
#include <mn/trainer/extensions/weight_average.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using extensions::Better;
using extensions::Monitor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::same_on_all;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

/// A job that reports made-up values, one an iteration, as "metric".
struct MetricJob : ToyJob {
  /// Nothing is reported where a value is `none`.
  MetricJob(const TestFolder& folder, std::vector<double> values, double none = -1e9)
      : ToyJob(world(), {.trainer = {.iterations = static_cast<std::int64_t>(values.size()), .out = folder.path()}}),
        log([this, values, none] {
          trainer->extend(std::make_unique<Reporter>(values, none));
          return &trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = kEach});
        }()) {}

  class Reporter final : public Extension {
   public:
    Reporter(std::vector<double> values, double none) : values_(std::move(values)), none_(none) {}
    std::string name() const override { return "reporter"; }
    int priority() const override { return kPriorityWriter; }
    void run(Trainer& trainer) override {
      const double value = values_.at(static_cast<std::size_t>(trainer.iteration() - 1));
      if (value != none_) trainer.report("metric", value);
    }

   private:
    std::vector<double> values_;
    double none_;
  };

  /// With the log's trigger, as the jobs add it.
  template <class E, class... Args>
  E& add(Args&&... args) {
    return trainer->extend(std::make_unique<E>(std::forward<Args>(args)...), {.trigger = kEach});
  }
  double rate() const { return trainer->optimizer().param_groups().front().options().get_lr(); }

  static inline const Interval kEach{1, "iteration"};
  const extensions::LogReport* log;
};

TEST(MonitorTest, KnowsWhatIsBetter) {
  EXPECT_EQ(extensions::better_of("validation/main/accuracy"), Better::kHigher);
  EXPECT_EQ(extensions::better_of("validation/main/loss"), Better::kLower);
  EXPECT_EQ(extensions::better_of("validation/main/mean_IoU"), Better::kHigher);
  EXPECT_EQ(extensions::better_of("main/dice_loss"), Better::kLower);
  EXPECT_EQ(extensions::better_of("loss/main/score"), std::nullopt);
  const extensions::LogReport log;
  EXPECT_THROW(Monitor(log, "elapsed_time", Better::kLower), UsageError);
}

TEST(MonitorTest, NamesTheValuesOfALogThatLacksOne) {
  const TestFolder folder(world());
  MetricJob job(folder, {1, 2});
  job.add<extensions::EarlyStopping>(Monitor(*job.log, "metrics", Better::kLower), 1);
  EXPECT_THAT([&] { return job.trainer->run(); },
              ThrowsMessage<UsageError>(testing::AllOf(HasSubstr("no value \"metrics\""), HasSubstr(" metric"))));
}

/// A validation once in a while beside a log of every iteration.
TEST(MonitorTest, ReportsWithoutTheValueDoNotCount) {
  const TestFolder folder(world());
  const double none = -1;
  const auto train = [&](std::vector<double> values, const std::string& name) {
    MetricJob job(folder, std::move(values), none);
    job.add<extensions::EarlyStopping>(Monitor(*job.log, name, Better::kLower), 2);
    job.add<extensions::BestSnapshot>(Monitor(*job.log, name, Better::kLower));
    EXPECT_EQ(job.trainer->run(), 0);
    return job.trainer->iteration();
  };
  EXPECT_EQ(train({none, 3, none, none, none, 4, none, 5, none, 1}, "metric"), 8);
  EXPECT_EQ(train({none, none, none}, "validation/main/loss"), 3);
  EXPECT_THAT([&] { train({none, none}, "main/los"); }, ThrowsMessage<UsageError>(HasSubstr("main/loss")));
}

TEST(EarlyStoppingTest, EndsAllRanksAfterReportsThatAreNotBetter) {
  const TestFolder folder(world());
  const double nan = std::nan("");
  for (const auto& [better, end] : {std::pair{Better::kLower, 6}, std::pair{Better::kHigher, 4}}) {
    MetricJob job(folder, {3, 4, 2, 2, nan, 5, 1, 0});
    job.add<extensions::EarlyStopping>(Monitor(*job.log, "metric", better), better == Better::kLower ? 3 : 2);
    EXPECT_EQ(job.trainer->run(), 0);
    EXPECT_EQ(job.trainer->iteration(), end);
    EXPECT_TRUE(same_on_all(std::to_string(job.trainer->iteration())));
  }
  MetricJob job(folder, {1});
  EXPECT_THROW(extensions::EarlyStopping(Monitor(*job.log, "metric", Better::kLower), 0), UsageError);
}

TEST(EarlyStoppingTest, CountsOnAfterAResumeAndStaysEnded) {
  const TestFolder folder(world());
  const auto train = [&](std::vector<double> values, const std::string& from) {
    MetricJob job(folder, std::move(values));
    job.add<extensions::EarlyStopping>(Monitor(*job.log, "metric", Better::kLower), 3);
    job.add<extensions::Snapshot>();
    if (!from.empty()) job.trainer->resume(from);
    EXPECT_EQ(job.trainer->run(), 0);
    return job.trainer->iteration();
  };
  EXPECT_EQ(train({1, 2, 2}, ""), 3);
  EXPECT_EQ(train({1, 2, 2, 2, 0, 0, 0}, "auto"), 4);
  EXPECT_EQ(train({1, 2, 2, 2, 0, 0, 0}, "auto"), 4);
}

TEST(TrainerStop, EndsAfterTheIteration) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.epochs = 5, .out = folder.path()}});
  job.trainer->extend("stop", {3, "iteration"}, [](Trainer& trainer) { trainer.stop("it is enough"); });
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_EQ(job.trainer->iteration(), 3);
  EXPECT_EQ(job.trainer->run(), 0);  // again
  EXPECT_EQ(job.trainer->iteration(), 6);
}

TEST(PlateauTest, LowersTheRateAndContinuesAfterAResume) {
  const TestFolder folder(world());
  const auto train = [&](std::vector<double> values, const std::string& from) {
    MetricJob job(folder, std::move(values));
    auto& plateau = job.add<extensions::Plateau>(Monitor(*job.log, "metric", Better::kLower),
                                                 extensions::PlateauOptions{.factor = 0.5, .patience = 2});
    job.trainer->extend(std::make_unique<extensions::LearningRate>(plateau.schedule(constant_schedule(8))));
    job.add<extensions::Snapshot>();
    std::vector<double> rates;
    job.trainer->extend("watch", MetricJob::kEach, [&](Trainer&) { rates.push_back(job.rate()); });
    if (!from.empty()) job.trainer->resume(from);
    EXPECT_EQ(job.trainer->run(), 0);
    return rates;
  };
  const std::vector<double> values = {5, 6, 6, 4, 4, 4, 4, 4};
  const auto whole = train(values, "");
  EXPECT_THAT(whole, ElementsAre(8, 8, 8, 4, 4, 4, 2, 2));  // those that the iterations used
  EXPECT_THAT(train(values, checkpoint_path(folder.path(), 6).string()), ElementsAre(2, 2));
  MetricJob job(folder, {1});
  EXPECT_THROW(extensions::Plateau(Monitor(*job.log, "metric", Better::kLower), {.factor = 1}), UsageError);
}

TEST(BestSnapshotTest, HoldsTheBestReport) {
  const TestFolder folder(world());
  MetricJob job(folder, {3, 1, 2, std::nan(""), 1});
  job.add<extensions::BestSnapshot>(Monitor(*job.log, "metric", Better::kLower));
  job.add<extensions::Snapshot>(std::size_t{1});
  at::Tensor at_best;
  job.trainer->extend("watch", MetricJob::kEach, [&](Trainer& trainer) {
    if (trainer.iteration() == 2) at_best = job.weights();
  });
  EXPECT_EQ(job.trainer->run(), 0);
  MetricJob next(folder, {0, 0, 0, 4, 2});
  next.add<extensions::BestSnapshot>(Monitor(*next.log, "metric", Better::kLower));
  EXPECT_TRUE(next.trainer->resume((folder.path() / "snapshot_best").string()));
  EXPECT_EQ(next.trainer->iteration(), 2);
  EXPECT_TRUE(next.weights().equal(at_best));
  EXPECT_EQ(next.trainer->run(), 0);  // 0 is better
  MetricJob last(folder, {0, 0, 0, 0, 0});
  EXPECT_TRUE(last.trainer->resume((folder.path() / "snapshot_best").string()));
  EXPECT_EQ(last.trainer->iteration(), 3);
}

class WeightAverageTest : public testing::Test {
 protected:
  TestFolder folder_{world()};
  toy::ToyOptions options_ = {.sgd = true, .trainer = {.iterations = 6, .out = folder_.path()}};
};

/// What the extension computes, by hand.
struct Average {
  at::Tensor value;
  int updates = 0;
  void add(const at::Tensor& weights, double decay) {
    ++updates;
    const double d = std::min(decay, (1.0 + updates) / (10.0 + updates));
    value = value * d + weights * (1 - d);
  }
};

TEST_F(WeightAverageTest, FollowsTheWeightsAndIsEvaluated) {
  ToyJob job(world(), options_);
  Average expected{job.weights().clone()};
  auto& average = job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.3));
  job.trainer->extend("by hand", {1, "iteration"}, [&](Trainer&) { expected.add(job.weights(), 0.3); });
  struct Look final : Evaluator {
    explicit Look(ToyJob& j) : job(j) {}
    Summary evaluate_local() override {
      seen = job.weights();
      return {};
    }
    ToyJob& job;
    at::Tensor seen;
  };
  auto look = std::make_unique<Look>(job);
  const Look& looked = *look;
  job.trainer->extend(
      std::make_unique<extensions::Validation>(extensions::create_averaged_evaluator(std::move(look), average)),
      {.trigger = Interval(6, "iteration")});
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_TRUE(torch::allclose(looked.seen, expected.value, 1e-5, 1e-6)) << looked.seen - expected.value;
  EXPECT_FALSE(torch::allclose(job.weights(), expected.value, 1e-5, 1e-6)) << "the weights have returned";
  {
    const extensions::AveragedWeights averaged(average);
    EXPECT_TRUE(job.weights().equal(looked.seen));
  }
  EXPECT_TRUE(same_on_all(toy::bytes_of({looked.seen})));
}

TEST_F(WeightAverageTest, IsSavedResumedAndLoaded) {
  const auto train = [&](std::int64_t iterations, bool resume) {
    options_.trainer.iterations = iterations;
    ToyJob job(world(), options_);
    auto& average = job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9));
    job.trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(4, "iteration")});
    EXPECT_EQ(job.trainer->resume("auto"), resume);
    EXPECT_EQ(job.trainer->run(), 0);
    const extensions::AveragedWeights averaged(average);
    return job.weights();
  };
  const at::Tensor at_four = train(4, false);
  const at::Tensor resumed = train(7, true);
  ToyJob fresh(world(), options_);
  load_model(checkpoint_path(folder_.path(), 4), *fresh.model, *world());
  EXPECT_TRUE(fresh.weights().equal(at_four));
  if (world()->rank() == 0) {
    for (const int iteration : {4, 7}) std::filesystem::remove_all(checkpoint_path(folder_.path(), iteration));
  }
  world()->barrier();
  EXPECT_TRUE(train(7, false).equal(resumed));
}

TEST_F(WeightAverageTest, ExcludesLocalSteps) {
  EXPECT_THROW(extensions::WeightAverage(1), UsageError);
  options_.optimizer.local_steps = 2;
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9));
  EXPECT_THROW(static_cast<void>(job.trainer->run()), UsageError);
}

class LearningRateOfGroups : public testing::Test {
 protected:
  /// Two groups with these rates, under `schedule`.
  std::unique_ptr<Trainer> trainer_of(std::int64_t iterations, double first, double second, Schedule schedule) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(model_->first->parameters(), std::make_unique<torch::optim::SGDOptions>(first));
    groups.emplace_back(model_->second->parameters(), std::make_unique<torch::optim::SGDOptions>(second));
    auto trainer = std::make_unique<Trainer>(
        world(),
        create_multi_node_optimizer(
            std::make_unique<torch::optim::SGD>(std::move(groups), torch::optim::SGDOptions(first)), world()),
        std::make_shared<toy::ToyIterator>(50, 4, *world()), model_,
        [this](const Batch& batch, Summary&) { return model_->forward(batch.data).pow(2).sum(); },
        TrainerOptions{.iterations = iterations, .out = folder_.path()});
    trainer->extend(std::make_unique<extensions::LearningRate>(std::move(schedule)));
    return trainer;
  }
  static std::vector<double> rates(Trainer& trainer) {
    std::vector<double> rates;
    for (auto& group : trainer.optimizer().param_groups()) rates.push_back(group.options().get_lr());
    return rates;
  }
  static double to_zero(std::int64_t iteration) { return iteration == 4 ? 0 : 1e-3; }

  TestFolder folder_{world()};
  std::shared_ptr<toy::ToyNet> model_ = std::make_shared<toy::ToyNet>(false);
};

TEST_F(LearningRateOfGroups, KeepsTheProportionOfTheGroups) {
  const auto first = trainer_of(4, 0.5, 0.05, to_zero);  // to a rate of 0, from which no proportion can be told
  EXPECT_EQ(first->run(), 0);
  EXPECT_THAT(rates(*first), ElementsAre(0, 0));
  first->save(checkpoint_path(folder_.path(), 4));
  const auto second = trainer_of(6, 0.5, 0.05, to_zero);
  EXPECT_TRUE(second->resume("auto"));
  EXPECT_EQ(second->run(), 0);
  EXPECT_THAT(rates(*second), ElementsAre(testing::DoubleEq(1e-3), testing::DoubleEq(1e-4)));
  const auto changed = trainer_of(6, 0.5, 1, to_zero);
  EXPECT_TRUE(changed->resume("auto"));
  EXPECT_EQ(changed->run(), 0);
  EXPECT_THAT(rates(*changed), ElementsAre(testing::DoubleEq(1e-3), testing::DoubleEq(2e-3)));
}

TEST_F(LearningRateOfGroups, AnAddedGroupKeepsItsProportionOverAResume) {
  const auto extra = torch::zeros({2}).requires_grad_();
  const auto add = [&](Trainer& trainer) {
    trainer.optimizer().actual().add_param_group({{extra}, std::make_unique<torch::optim::SGDOptions>(0.25)});
  };
  const auto falling = [](std::int64_t iteration) { return iteration < 2 ? 1 : 0.125; };
  const auto first = trainer_of(4, 0.5, 0.5, falling);
  first->extend("add", {3, "iteration"}, [&](Trainer& trainer) { add(trainer); });
  EXPECT_EQ(first->run(), 0);
  EXPECT_THAT(rates(*first), ElementsAre(0.125, 0.125, 0.0625));
  first->save(checkpoint_path(folder_.path(), 4));
  const auto second = trainer_of(6, 0.5, 0.5, falling);
  add(*second);
  EXPECT_TRUE(second->resume("auto"));
  EXPECT_EQ(second->run(), 0);
  EXPECT_THAT(rates(*second), ElementsAre(0.125, 0.125, 0.0625));
}

}  // namespace
}  // namespace mn
