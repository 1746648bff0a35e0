// Averages of weights, and rates of parameter groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/error.hpp>
#include <mn/trainer/extensions/allreduce_persistent.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/extensions/validation.hpp>
#include <mn/trainer/extensions/weight_average.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::ElementsAre;
using toy::same_on_all;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

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
    EXPECT_EQ(job.trainer->run(), 0);  // has no step left, and does not go back to the checkpoint
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

/// A trainer that resumes from an earlier checkpoint of its own averages as it did the first time.
TEST_F(WeightAverageTest, GoesBackToACheckpoint) {
  options_.trainer.iterations = 7;
  ToyJob job(world(), options_);
  auto& average = job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9));
  job.trainer->extend("save", {3, "iteration"}, [&](Trainer& trainer) {
    if (trainer.iteration() == 3) trainer.save(folder_.path() / "three");
  });
  const auto averaged = [&] {
    EXPECT_EQ(job.trainer->run(), 0);
    const extensions::AveragedWeights weights(average);
    return job.weights();
  };
  const at::Tensor expected = averaged();
  EXPECT_TRUE(job.trainer->resume((folder_.path() / "three").string()));
  EXPECT_TRUE(averaged().equal(expected));
}

/// In 16 bits 1 + 0.001 is 1, so an average of decay 0.999 would never change. Each validation swaps the average in.
TEST_F(WeightAverageTest, OfNarrowParametersIsFloat32) {
  const auto train = [&](const NamedTensors& loaded) {
    const auto model = std::make_shared<toy::ToyNet>(false);
    const at::NoGradGuard no_grad;
    model->to(at::kBFloat16);
    for (const at::Tensor& parameter : model->parameters()) parameter.fill_(1);
    std::vector<NamedOptimizer> optimizers = {
        {"sgd", create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), 0.1), world())}};
    Trainer trainer(
        world(), std::move(optimizers), std::make_shared<toy::ToyIterator>(50, 4, *world()), model,
        [](const Batch&, Summary&) {}, TrainerOptions{.iterations = 100, .out = folder_.path()});
    auto& average = trainer.extend(std::make_unique<extensions::WeightAverage>(0.999));
    average.load_state(100'000);  // updates
    average.load_tensors(loaded);
    trainer.extend("move", {1, "iteration"}, [&](Trainer&) {
      for (const at::Tensor& parameter : model->parameters()) parameter.fill_(2);
      const extensions::AveragedWeights averaged(average);
    });
    EXPECT_EQ(trainer.run(), 0);
    EXPECT_TRUE(model->first->weight.eq(2).all().item<bool>());
    for (const auto& [name, tensor] : average.tensors()) EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
    const extensions::AveragedWeights averaged(average);
    return model->first->weight.detach().mean(at::kFloat).item<double>();
  };
  const double moved = 1 - std::pow(0.999, 99);  // the first update sees the weights from before
  EXPECT_NEAR(train({}), 1 + moved, 0.01);
  EXPECT_NEAR(train({{"first.weight", torch::full({5, 6}, 0.5, at::kBFloat16)}}), 0.5 + 1.5 * moved, 0.01)
      << "a checkpoint with an average in 16 bits";
}

/// Each rank's running mean, of its own samples, is averaged as the weights are.
TEST_F(WeightAverageTest, StatisticsGoWithTheWeights) {
  options_.noise = true;
  const auto train = [&](std::int64_t iterations) {
    options_.trainer.iterations = iterations;
    ToyJob job(world(), options_);
    Average expected{job.model->running_mean.clone()};
    auto& average = job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9));
    job.trainer->extend("by hand", {1, "iteration"}, [&](Trainer&) { expected.add(job.model->running_mean, 0.9); });
    job.trainer->extend(std::make_unique<extensions::Snapshot>());
    const bool resumed = job.trainer->resume("auto");
    EXPECT_EQ(job.trainer->run(), 0);
    const extensions::AveragedWeights averaged(average);
    const at::Tensor found = job.model->running_mean.clone();
    EXPECT_TRUE(resumed || torch::allclose(found, expected.value, 1e-5, 1e-6)) << found - expected.value;
    average.average_statistics();
    EXPECT_TRUE(same_on_all(toy::bytes_of({job.model->running_mean})));
    return found;
  };
  const at::Tensor at_four = train(4);
  ToyJob fresh(world(), options_);
  load_model(checkpoint_path(folder_.path(), 4), *fresh.model, *world());
  EXPECT_EQ(toy::bytes_of({fresh.model->running_mean}), world()->bcast_obj(toy::bytes_of({at_four}))) << "rank 0's";
  const at::Tensor resumed = train(7);
  if (world()->rank() == 0) std::filesystem::remove_all(folder_.path() / "ckpt");
  world()->barrier();
  EXPECT_TRUE(train(7).equal(resumed));
}

TEST_F(WeightAverageTest, EvaluationsSeeTheStatisticsOfAllRanks) {
  struct Look final : Evaluator {
    explicit Look(const toy::ToyNet& net) : model(net) {}
    Summary evaluate_local() override {
      seen = model.running_mean.clone();
      return {};
    }
    const toy::ToyNet& model;
    at::Tensor seen;
  };
  options_.noise = true;
  for (const bool passes_comm : {false, true}) {
    ToyJob job(world(), options_);
    auto& average = job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9));
    EXPECT_EQ(job.trainer->run(), 0);
    auto look = std::make_unique<Look>(*job.model);
    const Look& looked = *look;
    const auto evaluator = extensions::create_averaged_evaluator(std::move(look), average);
    passes_comm ? static_cast<void>(evaluator->evaluate_with(*world())) : static_cast<void>(evaluator->evaluate());
    EXPECT_TRUE(same_on_all(toy::bytes_of({looked.seen}))) << passes_comm;
  }
}

TEST_F(WeightAverageTest, CheckpointsHaveTheStatisticsOfAllRanks) {
  options_.noise = true;
  ToyJob job(world(), options_);
  auto& average = job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9));
  job.trainer->extend(std::make_unique<extensions::AllreducePersistent>());
  job.trainer->extend(std::make_unique<extensions::Snapshot>());
  EXPECT_EQ(job.trainer->run(), 0);
  ToyJob fresh(world(), options_);
  load_model(checkpoint_path(folder_.path(), 6), *fresh.model, *world());
  EXPECT_TRUE(same_on_all(toy::bytes_of({average.rank_tensors().front().second})));
  const extensions::AveragedWeights averaged(average);
  average.average_statistics();
  EXPECT_TRUE(fresh.model->running_mean.equal(job.model->running_mean));
}

TEST_F(WeightAverageTest, AResumeOnOtherRanksTakesTheStatisticsOfRankZero) {
  options_.noise = true;
  options_.trainer.iterations = 1;
  ToyJob job(world(), options_);
  auto& average = job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9));
  average.map_rank_tensors({{{"running_mean", torch::ones({6})}}, {{"running_mean", torch::zeros({6})}}}, *world());
  EXPECT_EQ(job.trainer->run(), 0);
  Average expected{torch::ones({6})};
  expected.add(job.model->running_mean, 0.9);
  EXPECT_TRUE(torch::allclose(average.rank_tensors().front().second, expected.value));
}

TEST_F(WeightAverageTest, MayBeOfAPartOfTheModel) {
  options_.noise = true;
  ToyJob job(world(), options_);
  auto& average = job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9, job.model->second.ptr()));
  EXPECT_EQ(job.trainer->run(), 0);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : average.tensors()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("second.weight", "second.bias")) << "as load_model() finds them";
  EXPECT_TRUE(average.rank_tensors().empty());
  const at::Tensor first = job.model->first->weight.clone(), second = job.model->second->weight.clone();
  const extensions::AveragedWeights averaged(average);
  EXPECT_TRUE(job.model->first->weight.equal(first));
  EXPECT_FALSE(job.model->second->weight.equal(second));
  const at::Tensor statistics = job.model->running_mean.clone();
  average.average_statistics();
  EXPECT_TRUE(job.model->running_mean.equal(statistics)) << "of another module";

  ToyJob other(world(), {.sgd = true, .trainer = {.iterations = 1, .out = folder_.path() / "other"}});
  other.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9, torch::nn::Linear(1, 1).ptr()));
  EXPECT_THROW(static_cast<void>(other.trainer->run()), ArgumentError);
}

TEST_F(WeightAverageTest, ExcludesLocalSteps) {
  EXPECT_THROW(extensions::WeightAverage(1), UsageError);
  options_.optimizer.local_steps = 2;
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::WeightAverage>(0.9));
  EXPECT_THROW(static_cast<void>(job.trainer->run()), UsageError);
  const auto optimizer_of = [](const torch::nn::Linear& layer, const OptimizerOptions& how) {
    return create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(layer->parameters(), 0.1), world(), how);
  };
  Trainer second(
      world(),
      {{"first", optimizer_of(job.model->first, {})}, {"second", optimizer_of(job.model->second, options_.optimizer)}},
      std::make_shared<toy::ToyIterator>(50, 4, *world()), job.model, [](const Batch&, Summary&) {}, options_.trainer);
  second.extend(std::make_unique<extensions::WeightAverage>(0.9));
  EXPECT_THROW(static_cast<void>(second.run()), UsageError);
}

class LearningRateOfGroups : public testing::Test {
 protected:
  /// Two groups with these rates, under `schedule`, of a network of its own.
  std::unique_ptr<Trainer> trainer_of(std::int64_t iterations, double first, double second, Schedule schedule) {
    const auto model = std::make_shared<toy::ToyNet>(false);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(model->first->parameters(), std::make_unique<torch::optim::SGDOptions>(first));
    groups.emplace_back(model->second->parameters(), std::make_unique<torch::optim::SGDOptions>(second));
    auto trainer = std::make_unique<Trainer>(
        world(),
        create_multi_node_optimizer(
            std::make_unique<torch::optim::SGD>(std::move(groups), torch::optim::SGDOptions(first)), world()),
        std::make_shared<toy::ToyIterator>(50, 4, *world()), model,
        [model](const Batch& batch, Summary&) { return model->forward(batch.data).pow(2).sum(); },
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

/// A first group that is frozen, or that the program gave 0 as all others, tells no proportion.
TEST_F(LearningRateOfGroups, AFrozenFirstGroupLeavesTheOthersTheirProportion) {
  const auto with_third = [&](std::int64_t iterations, double second, double third) {
    auto trainer = trainer_of(iterations, 0, second, to_zero);
    const auto extra = torch::zeros({2}).requires_grad_();
    trainer->optimizer().actual().add_param_group({{extra}, std::make_unique<torch::optim::SGDOptions>(third)});
    return trainer;
  };
  const auto frozen = ElementsAre(0, testing::DoubleEq(1e-3), testing::DoubleEq(1e-4));
  const auto first = with_third(3, 0.5, 0.05);
  EXPECT_EQ(first->run(), 0);
  EXPECT_THAT(rates(*first), frozen);
  first->save(checkpoint_path(folder_.path(), 3));
  const auto second = with_third(6, 0.5, 0.05);
  EXPECT_TRUE(second->resume("auto"));
  EXPECT_EQ(second->run(), 0);
  EXPECT_THAT(rates(*second), frozen);
  const auto all_zero = with_third(3, 0, 0);
  EXPECT_EQ(all_zero->run(), 0);
  EXPECT_THAT(rates(*all_zero), ElementsAre(1e-3, 1e-3, 1e-3));
}

TEST_F(LearningRateOfGroups, AnAddedGroupKeepsItsProportionOverAResume) {
  const auto add = [](Trainer& trainer) {
    const auto extra = torch::zeros({2}).requires_grad_();
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
