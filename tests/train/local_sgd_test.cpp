// Local SGD: parameters averaged every few steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/local_sgd.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::SGD;
using torch::optim::SGDOptions;
using toy::same_on_all;

class LocalSgdTest : public testing::Test {
 protected:
  std::shared_ptr<Communicator> comm_ = toy::world();
  int rank_ = comm_->rank();
  int size_ = comm_->size();
  double mean_ = (size_ + 1) / 2.0;  // of rank + 1

  std::unique_ptr<MultiNodeOptimizer> sgd(const at::Tensor& p, const OptimizerOptions& options) {
    return create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)), comm_,
                                       options);
  }
};

at::Tensor parameter(double value = 0) { return torch::full({5, 3}, value).requires_grad_(); }

TEST_F(LocalSgdTest, OneLocalStepOfSgdIsThePlainStep) {
  const at::Tensor x = torch::arange(15).view({5, 3}).to(torch::kFloat);
  const at::Tensor p = parameter(2);
  const at::Tensor q = parameter(2);
  const auto plain = sgd(p, {});
  SGD alone(std::vector<at::Tensor>{q}, SGDOptions(1));
  LocalSgd local({q}, comm_, 1, 0, nullptr);
  for (int k = 1; k <= 5; ++k) {
    const int factor = (rank_ + k) * size_;  // whole numbers, as is their mean
    plain->zero_grad();
    alone.zero_grad();
    ((p * x).sum() * factor).backward();
    ((q * x).sum() * factor).backward();
    plain->step();
    alone.step();
    EXPECT_FALSE(local.step({}).set_changes);
    EXPECT_TRUE(q.equal(p)) << "step " << k;
  }
}

TEST_F(LocalSgdTest, ParametersAreTheirMeanEveryKSteps) {
  const at::Tensor p = parameter();
  const auto optimizer = sgd(p, {.local_steps = 3});
  for (int k = 1; k <= 7; ++k) {
    optimizer->zero_grad();
    (p.sum() * (rank_ + 1)).backward();
    optimizer->step();
    const double own = k % 3 == 0 ? 0 : (k % 3) * (rank_ + 1);
    EXPECT_TRUE(torch::allclose(p, torch::full({5, 3}, -(k - k % 3) * mean_ - own))) << "step " << k;
  }
  optimizer->synchronize();
  EXPECT_TRUE(torch::allclose(p, torch::full({5, 3}, -7 * mean_)));
  const at::Tensor before = p.detach().clone();
  optimizer->synchronize();
  EXPECT_TRUE(p.equal(before)) << "there was no step since";
  EXPECT_EQ(optimizer->bytes_sent(), size_ > 1 ? 3U * 128 : 0U) << "15 + 4 numbers, in whole units of 64 bytes";
}

TEST_F(LocalSgdTest, RanksCountByTheirSamples) {
  const at::Tensor p = parameter();
  const auto optimizer = sgd(p, {.local_steps = 2});
  double weighted = 0;
  double samples = 0;
  for (int r = 0; r < size_; ++r) {
    weighted += 2 * r * (r + 1.0);
    samples += r;
  }
  for (int k = 0; k < 2; ++k) {
    optimizer->zero_grad();
    if (rank_ > 0) (p.sum() * (rank_ + 1)).backward();  // rank 0 never has a sample
    optimizer->step(rank_);
  }
  EXPECT_TRUE(torch::allclose(p, torch::full({5, 3}, samples > 0 ? -weighted / samples : 0.0))) << p;
}

TEST_F(LocalSgdTest, OuterMomentumCarriesTheMeanChangeOn) {
  const at::Tensor p = parameter();
  const auto optimizer = sgd(p, {.local_steps = 2, .outer_momentum = 0.5});
  double velocity = 0;
  double expected = 0;
  for (int k = 1; k <= 6; ++k) {
    optimizer->zero_grad();
    (p.sum() * (rank_ + 1)).backward();
    optimizer->step();
    if (k % 2 != 0) continue;
    velocity = 0.5 * velocity - 2 * mean_;
    expected += velocity;
    EXPECT_TRUE(torch::allclose(p, torch::full({5, 3}, expected))) << "step " << k;
  }
  const at::Tensor q = parameter();
  const auto resumed = sgd(q, {.local_steps = 2, .outer_momentum = 0.5});
  resumed->load_rank_state(optimizer->rank_state());
  for (int k = 0; k < 2; ++k) {
    resumed->zero_grad();
    q.sum().backward();
    resumed->step();
  }
  EXPECT_TRUE(torch::allclose(q, torch::full({5, 3}, 0.5 * velocity - 2)));
}

/// A parameter that is frozen for one period, also with all others, and through a checkpoint.
TEST_F(LocalSgdTest, OuterMomentumOutlivesAFreeze) {
  for (const bool resumes : {false, true}) {
    const at::Tensor p = parameter();
    const OptimizerOptions options = {.local_steps = 2, .outer_momentum = 0.5};
    auto optimizer = sgd(p, options);
    for (int k = 0; k < 6; ++k) {
      const bool is_frozen = k == 2 || k == 3;
      p.requires_grad_(!is_frozen);
      optimizer->zero_grad();
      if (!is_frozen) p.sum().backward();
      optimizer->step();
      if (k != 3 || !resumes) continue;
      const auto resumed = sgd(p, options);
      resumed->load_rank_state(optimizer->rank_state());
      optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector{p}, SGDOptions(1)), comm_, options);
      optimizer->load_rank_state(resumed->rank_state());
    }
    EXPECT_TRUE(torch::allclose(p, torch::full({5, 3}, -2 - 3.0))) << p;
  }
}

TEST_F(LocalSgdTest, StatisticsBecomeThoseOfAllRanks) {
  const at::Tensor p = parameter();
  torch::nn::BatchNorm1d norm(4);
  const at::NoGradGuard no_grad;
  norm->running_mean.fill_(1000);  // large means cancel no variance
  const auto optimizer = sgd(p, {.local_steps = 2});
  optimizer->average_statistics(*norm);
  for (int k = 0; k < 2; ++k) {
    norm->running_mean.fill_(1000 + rank_ + 1);
    norm->running_var.fill_(rank_ + 2);
    norm->num_batches_tracked.fill_(rank_ + 5);
    optimizer->step();
  }
  EXPECT_TRUE(torch::allclose(norm->running_mean, torch::full({4}, 1000 + mean_)));
  const double between = (size_ * size_ - 1) / 12.0;  // the variance of 1 … size
  EXPECT_TRUE(torch::allclose(norm->running_var, torch::full({4}, mean_ + 1 + between))) << norm->running_var;
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), rank_ + 5);
}

TEST_F(LocalSgdTest, EpochsEndAndResumeTogether) {
  const toy::TestFolder folder(comm_);
  toy::ToyOptions options = {.noise = true,  // dropout, and a buffer of each rank's own
                             .trainer = {.epochs = 3, .out = folder.path()},
                             .optimizer = {.local_steps = 4, .outer_momentum = 0.3}};
  toy::ToyJob whole(comm_, options);
  whole.trainer->extend("look", {1, "epoch"}, [&](Trainer&) {
    EXPECT_TRUE(same_on_all(toy::bytes_of({whole.weights(), whole.model->running_mean})));
  });
  EXPECT_EQ(whole.trainer->run(), 0);

  options.trainer.epochs = 2;
  toy::ToyJob first(comm_, options);
  first.trainer->extend(std::make_unique<extensions::Snapshot>());
  EXPECT_EQ(first.trainer->run(), 0);
  options.trainer.epochs = 3;
  toy::ToyJob second(comm_, options);
  EXPECT_TRUE(second.trainer->resume("auto"));
  EXPECT_EQ(second.trainer->run(), 0);
  EXPECT_TRUE(second.weights().equal(whole.weights())) << "each rank's Adam continues with its own state";
}

/// Two parameters whose set some ranks change alone.
struct ChangingSet {
  ChangingSet(const std::shared_ptr<Communicator>& comm, const OptimizerOptions& options)
      : optimizer(create_multi_node_optimizer(std::make_unique<SGD>(std::vector{p, q}, SGDOptions(1)), comm, options)) {
  }
  void step() {
    optimizer->zero_grad();
    (p.sum() + q.sum()).backward();
    optimizer->step();
  }
  void add() { optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({extra})); }

  at::Tensor p = parameter(), q = parameter(), extra = parameter();
  std::unique_ptr<MultiNodeOptimizer> optimizer;
};

/// The rank of the change waits for the average.
TEST_F(LocalSgdTest, AChangeOfTheSetOnOneRankIsAnErrorOnAllInTheNextAverage) {
  if (size_ == 1) return;
  for (const bool adds : {false, true}) {
    for (const int before : {0, 1}) {  // steps after an average
      ChangingSet set(comm_, {.local_steps = 3});
      for (int k = 0; k < 3 + before; ++k) set.step();
      if (rank_ == 0 && adds) set.add();
      if (rank_ == 0 && !adds) set.q.requires_grad_(false);
      int steps = before;
      const auto go_on = [&] {
        while (steps < 6) {
          set.step();
          ++steps;
        }
      };
      EXPECT_THAT(go_on, ThrowsMessage<UsageError>(HasSubstr("the ranks differ in the parameters that they train")));
      EXPECT_EQ(steps, rank_ == 0 ? before : 2);
      if (rank_ == 0 && adds) set.optimizer->param_groups().pop_back();
      set.q.requires_grad_(true);
      for (int k = 0; k < 3; ++k) set.step();
      EXPECT_TRUE(same_on_all(toy::bytes_of({set.p.detach(), set.q.detach()})));
    }
  }
}

/// Of three ranks the second one's weight is the mean.
TEST_F(LocalSgdTest, AForgottenWeightIsTheSameErrorOnAllInTheNextAverage) {
  if (size_ == 1) return;
  const at::Tensor p = parameter();
  const auto optimizer = sgd(p, {.local_steps = 2});
  const auto step = [&] {
    optimizer->zero_grad();
    all_reduce(comm_, p * 1).sum().backward();
    optimizer->step(rank_ + 1);
  };
  step();
  EXPECT_THAT(step, ThrowsMessage<ArgumentError>(HasSubstr("weigh differently in a step")));
}

TEST_F(LocalSgdTest, AFreezeInAnotherStepIsAnErrorOnAll) {
  if (size_ == 1) return;
  ChangingSet set(comm_, {.local_steps = 3});
  set.step();
  if (rank_ != 0) set.step();
  set.q.requires_grad_(false);
  EXPECT_THAT([&] { set.step(); },
              ThrowsMessage<UsageError>(HasSubstr("the last change is \"1 steps after an average\" on rank 0")));
}

/// Ranks without the change learn of it from the reduction that they wait for a step later, or in synchronize().
TEST_F(LocalSgdTest, DoubleBufferingTellsAllRanksOfAChangeOfTheSetOnOneRank) {
  if (size_ == 1) return;
  for (const bool adds : {false, true}) {
    for (const bool synchronizes : {false, true}) {
      ChangingSet set(comm_, {.double_buffering = true});
      for (int k = 0; k < 2; ++k) set.step();
      if (rank_ == 0 && adds) set.add();
      if (rank_ == 0 && !adds) set.q.requires_grad_(false);
      bool went_on = false;
      const auto go_on = [&] {
        set.step();
        went_on = true;
        synchronizes ? set.optimizer->synchronize() : set.step();
      };
      EXPECT_THAT(go_on, ThrowsMessage<UsageError>(HasSubstr("the ranks differ in the parameters that they train")));
      EXPECT_EQ(went_on, rank_ != 0);
      if (rank_ == 0 && adds) set.optimizer->param_groups().pop_back();
      set.q.requires_grad_(true);
      for (int k = 0; k < 3; ++k) set.step();
      set.optimizer->synchronize();
      for (const at::Tensor& each : {set.p, set.q}) EXPECT_TRUE(each.allclose(torch::full({5, 3}, -5.0))) << each;
    }
  }
}

TEST_F(LocalSgdTest, DoubleBufferingAppliesEveryStepByTheEnd) {
  const at::Tensor p = parameter();
  const auto optimizer = sgd(p, {.double_buffering = true});
  for (int k = 1; k <= 4; ++k) {
    optimizer->zero_grad();
    (p.sum() * (k * (rank_ + 1))).backward();
    optimizer->step();
  }
  optimizer->synchronize();
  EXPECT_TRUE(torch::allclose(p, torch::full({5, 3}, -10 * mean_)));
  optimizer->synchronize();
  EXPECT_TRUE(torch::allclose(p, torch::full({5, 3}, -10 * mean_)));
}

}  // namespace
}  // namespace mn
