// Parameters that are frozen in some epochs, also over a resume and on other numbers of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/trainer/extensions/freezing.hpp>

#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using extensions::Freezing;
using extensions::FrozenEpochs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using toy::ToyJob;
using toy::ToyOptions;
using toy::world;

constexpr std::int64_t kEpoch = 4;         // iterations
constexpr std::int64_t kGlobalBatch = 12;  // 1, 2, 3 and 4 divide it

class FreezingTest : public toy::CheckpointTest {
 protected:
  ToyJob make(const std::shared_ptr<Communicator>& comm, std::int64_t iterations,
              const std::vector<FrozenEpochs>& rules = {{.pattern = "first", .until = 2}},
              const OptimizerOptions& how = {}) const {
    ToyJob job(comm, {.size = kEpoch * kGlobalBatch,
                      .batchsize = kGlobalBatch / comm->size(),
                      .fused = true,
                      .trainer = {.iterations = iterations, .out = folder_.path()},
                      .optimizer = how});
    job.trainer->extend(std::make_unique<Freezing>(rules));
    return job;
  }
  /// The first layer's weight after each epoch.
  static std::vector<at::Tensor> follow(ToyJob& job) {
    std::vector<at::Tensor> weights = {job.model->first->weight.detach().clone()};
    job.trainer->extend("follow", {1, "epoch"}, [&weights, model = job.model](Trainer&) {
      weights.push_back(model->first->weight.detach().clone());
    });
    EXPECT_EQ(job.trainer->run(), 0);
    return weights;
  }
};

TEST_F(FreezingTest, FrozenParametersKeepTheirValuesUntilTheirEpoch) {
  ToyJob job = make(world(), 5 * kEpoch, {{.pattern = "first", .until = 2}, {.pattern = "first.*", .from = 4}});
  const at::Tensor second = job.model->second->weight.detach().clone();
  const auto weights = follow(job);
  EXPECT_EQ(weights.size(), 6U);
  EXPECT_TRUE(weights[2].equal(weights[0]));
  EXPECT_FALSE(weights[3].equal(weights[2]));
  EXPECT_FALSE(weights[4].equal(weights[3]));
  EXPECT_TRUE(weights[5].equal(weights[4]));
  EXPECT_FALSE(job.model->second->weight.equal(second));
  EXPECT_TRUE(toy::same_on_all(toy::bytes_of({job.weights()})));
}

/// In the epoch of the change, before it and after it; with overlap, double buffering and local steps.
TEST_F(FreezingTest, AResumeTrainsAsWithoutABreak) {
  const std::string path = (folder_.path() / "c").string();
  for (const OptimizerOptions& how : {OptimizerOptions{}, OptimizerOptions{.overlap = true},
                                      OptimizerOptions{.double_buffering = true}, OptimizerOptions{.local_steps = 2}}) {
    for (const std::int64_t stop : {2 * kEpoch - 2, 2 * kEpoch, 2 * kEpoch + 2}) {
      const std::vector<FrozenEpochs> rules = {{.pattern = "first", .until = 2}};
      ToyJob whole = make(world(), 4 * kEpoch, rules, how), first = make(world(), stop, rules, how);
      whole.trainer->extend("save", {static_cast<double>(stop), IntervalUnit::kIteration},
                            [&](Trainer& trainer) { trainer.finish_steps(); });  // as a checkpoint does
      EXPECT_EQ(whole.trainer->run(), 0);
      EXPECT_EQ(first.trainer->run(), 0);
      first.trainer->save(path);
      ToyJob second = make(world(), 4 * kEpoch, rules, how);
      EXPECT_TRUE(second.trainer->resume(path));
      second.trainer->extend("save", {static_cast<double>(stop), IntervalUnit::kIteration},
                             [&](Trainer& trainer) { trainer.finish_steps(); });
      EXPECT_EQ(second.trainer->run(), 0);
      EXPECT_TRUE(second.weights().equal(whole.weights())) << stop;
    }
  }
}

TEST_F(FreezingTest, AResumeOnOtherRanksUnfreezesInTheSameEpoch_from_2_ranks) {
  const bool is_first = world()->rank() == 0;
  const auto alone = world()->split(is_first ? 0 : -1, 0);
  const std::string path = (folder_.path() / "c").string();
  ToyJob whole = make(world(), 4 * kEpoch);
  EXPECT_EQ(whole.trainer->run(), 0);
  if (is_first) {
    ToyJob one = make(alone, kEpoch + 1);
    EXPECT_EQ(one.trainer->run(), 0);
    one.trainer->save(path);
  }
  world()->barrier();
  ToyJob many = make(world(), 4 * kEpoch);
  EXPECT_TRUE(many.trainer->resume(path));
  EXPECT_FALSE(many.model->first->weight.requires_grad());
  EXPECT_EQ(many.trainer->run(), 0);
  EXPECT_TRUE(many.model->first->weight.requires_grad());
  EXPECT_TRUE(torch::allclose(many.weights(), whole.weights(), 1e-4, 1e-5)) << many.weights() - whole.weights();
}

/// Also before an optimizer is made, and where the program names another epoch than the checkpoint's program did.
TEST_F(FreezingTest, TheProgramsEpochsCount) {
  const auto path = folder_.path() / "c";
  ToyJob first = make(world(), 3 * kEpoch);
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(path);
  ToyJob later = make(world(), 4 * kEpoch, {{.pattern = "first", .until = 5}});
  EXPECT_TRUE(later.trainer->resume(path.string()));
  EXPECT_TRUE(later.model->first->weight.requires_grad()) << "as in the checkpoint";
  const at::Tensor before = later.model->first->weight.detach().clone();
  EXPECT_EQ(later.trainer->run(), 0);
  EXPECT_TRUE(later.model->first->weight.equal(before));

  const auto model = std::make_shared<toy::ToyNet>(false);
  model->first->bias.set_requires_grad(false);  // by the program
  const Freezing freezing({{"second.weight", 2}});
  EXPECT_THAT(freezing.apply(*model, 0), ElementsAre("second.weight"));
  EXPECT_FALSE(model->second->weight.requires_grad());
  EXPECT_THAT(freezing.apply(*model, 1), IsEmpty());
  EXPECT_THAT(freezing.apply(*model, 2), ElementsAre("second.weight"));
  EXPECT_TRUE(model->second->weight.requires_grad());
  EXPECT_FALSE(model->first->bias.requires_grad());
}

TEST_F(FreezingTest, FrozenNormalizationsKeepTheirStatistics) {
  torch::nn::Sequential body(torch::nn::Linear(6, 5), torch::nn::BatchNorm1d(5), torch::nn::Dropout());
  auto net = std::make_shared<torch::nn::ModuleDict>();
  (*net)->update({{"body", body.ptr()}, {"head", torch::nn::BatchNorm1d(5).ptr()}});
  const Freezing freezing({{"body", 1}});
  static_cast<void>(freezing.apply(**net, 0));
  EXPECT_FALSE(body[1]->is_training());
  EXPECT_TRUE(body[2]->is_training()) << "no normalization";
  EXPECT_TRUE((*net)->named_modules()["head"]->is_training()) << "not frozen";
  static_cast<void>(freezing.apply(**net, 1));
  EXPECT_TRUE(body[1]->is_training());
}

TEST_F(FreezingTest, WhatCannotBeIsAnErrorOnEveryRank) {
  EXPECT_THAT([] { Freezing({{"first", -1}}); }, ThrowsMessage<ArgumentError>(HasSubstr("\"first\"")));
  ToyJob unknown = make(world(), 4, {{"frist"}});
  EXPECT_THAT([&] { static_cast<void>(unknown.trainer->run()); },
              ThrowsMessage<ArgumentError>(HasSubstr("\"frist\" matches no name; names are like \"first.weight\"")));
  ToyJob all = make(world(), 3 * kEpoch, {{.pattern = "*", .from = 2}});
  EXPECT_THAT([&] { static_cast<void>(all.trainer->run()); },
              ThrowsMessage<UsageError>(HasSubstr("every parameter of the model is frozen after 2 epochs")));
}

}  // namespace
}  // namespace mn
