// The scale of a loss: each loss has it once, for one optimizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/optimizers/grad_scaler.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using toy::world;

constexpr GradScalerOptions kScaleOptions = {.init_scale = 1024};

struct ScaledWeight {
  at::Tensor weight = torch::zeros({1}).requires_grad_();
  std::unique_ptr<MultiNodeOptimizer> optimizer;

  explicit ScaledWeight(bool overlap, const std::optional<GradScalerOptions>& scaling = kScaleOptions)
      : optimizer(create_multi_node_optimizer(
            std::make_unique<torch::optim::SGD>(std::vector{weight}, torch::optim::SGDOptions(1)), world(),
            {.overlap = overlap, .grad_scaler = scaling})) {}
};

class LossScaleTest : public ::testing::TestWithParam<bool> {};

/// A loss without the scale, before or after one with it; a scale of a scale.
TEST_P(LossScaleTest, EachLossOfAStepHasTheScaleOnce) {
  const ScaledWeight job(GetParam());
  const auto& optimizer = job.optimizer;
  const auto fails = [&](const std::vector<at::Tensor>& losses, const std::string& text) {
    for (const at::Tensor& loss : losses) loss.backward();
    EXPECT_THAT([&] { optimizer->step(1); }, ThrowsMessage<UsageError>(HasSubstr(text)));
    optimizer->zero_grad();
  };
  const auto plain = [&] { return job.weight.sum(); };
  const auto scaled = [&] { return optimizer->scale_loss(plain()); };
  const bool last = world()->rank() == world()->size() - 1;  // the fault is on this rank alone
  for (const bool first : {false, true}) {
    const auto forgotten = [&](bool now) { return now && last ? plain() : scaled(); };
    fails({forgotten(first), forgotten(!first)}, "scale_loss(loss).backward()");
  }
  fails({last ? optimizer->scale_loss(scaled() / 2) : scaled()}, "scaled twice");
  fails({last ? optimizer->scale_loss(scaled() + scaled(), 1) : optimizer->scale_loss(plain(), 1)}, "twice");
  (scaled() + scaled()).backward();
  scaled().backward();
  optimizer->step(1);
  EXPECT_DOUBLE_EQ(job.weight.item<double>(), -3);
}

/// A loss that one optimizer scales and that reaches the parameters of two.
TEST_P(LossScaleTest, ALossScaledForAnotherOptimizerIsAnError) {
  for (const bool both_scale : {false, true}) {
    const ScaledWeight one(GetParam());
    const ScaledWeight other(GetParam(), both_scale ? std::optional(kScaleOptions) : std::nullopt);
    const auto fails = [&](const at::Tensor& loss, MultiNodeOptimizer& optimizer) {
      loss.backward();
      EXPECT_THAT([&] { optimizer.step(); }, ThrowsMessage<UsageError>(HasSubstr("another optimizer's GradScaler")));
      one.optimizer->zero_grad();
      other.optimizer->zero_grad();
    };
    const auto loss = [&] { return (one.weight + other.weight).sum(); };
    fails(one.optimizer->scale_loss(loss()), *other.optimizer);
    // On one rank the loss reaches the other parameter, too.
    fails(one.optimizer->scale_loss(world()->rank() == 0 ? loss() : one.weight.sum()), *other.optimizer);
    if (both_scale) fails(other.optimizer->scale_loss(one.optimizer->scale_loss(loss())), *one.optimizer);
    one.optimizer->scale_loss(loss()).backward();
    other.optimizer->zero_grad();
    other.optimizer->scale_loss(other.weight.sum()).backward();
    one.optimizer->step();
    other.optimizer->step();
    EXPECT_EQ(one.weight.item<double>(), -1);
    EXPECT_EQ(other.weight.item<double>(), -1);
  }
}

INSTANTIATE_TEST_SUITE_P(Overlap, LossScaleTest, ::testing::Bool());

}  // namespace
}  // namespace mn
