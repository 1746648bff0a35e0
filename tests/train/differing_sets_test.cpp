// Parameter sets that the ranks change differently: all ranks throw, and none waits forever.
#include <gmock/gmock.h>

#include <mn/core/error.hpp>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::OptimizerParamGroup;

TEST_P(OptimizerTest, AParameterThatOneRankAddsIsTheSameErrorOnAll) {
  if (size_ == 1) return;
  const at::Tensor p = parameter({2000}), q = parameter({2000}), added = parameter({6});
  const auto optimizer = sgd({p, q});
  const auto step = [&](bool adds_early, bool adds_late) {
    if (adds_early) optimizer->actual().add_param_group(OptimizerParamGroup({added}));
    optimizer->zero_grad();
    (rank_ == 0 ? p.sum() + q.sum() : p.sum()).backward();
    if (adds_late) optimizer->actual().add_param_group(OptimizerParamGroup({added}));
    optimizer->step();
  };
  step(false, false);
  for (const int rank : {0, size_ - 1}) {
    for (const bool late : {false, true}) {
      EXPECT_THAT([&] { step(!late && rank_ == rank, late && rank_ == rank); },
                  ThrowsMessage<UsageError>(HasSubstr("requires_grad of parameter 2 is ")));
      if (rank_ == rank) optimizer->param_groups().pop_back();
      step(false, false);
    }
  }
  EXPECT_TRUE(torch::allclose(p, torch::full({2000}, -5.0)));
  EXPECT_TRUE(torch::allclose(q, torch::full({2000}, -5.0 / size_)));
}

/// Before the first step, or where each step begins with an agreement: with float16 gradients and with loss_ranks.
TEST_P(OptimizerTest, AParameterThatOneRankAddsBeforeAnAgreementIsTheSameErrorOnAll_from_2_ranks) {
  for (int way = 0; way < 8; ++way) {
    const bool narrow = way % 2 != 0, counts = way / 2 % 2 != 0;
    const at::Tensor p = torch::zeros({8}, narrow ? at::kHalf : at::kFloat).requires_grad_(), added = parameter({6});
    options_.loss_ranks = way >= 4 ? comm_ : nullptr;
    const auto optimizer = sgd({p});
    const auto step = [&](bool adds) {
      if (adds) optimizer->actual().add_param_group(OptimizerParamGroup({added}));
      optimizer->zero_grad();
      p.sum().backward();
      counts ? optimizer->step(4) : optimizer->step();
    };
    for (int k = 0; k < 3; ++k) {
      EXPECT_THAT([&] { step(rank_ == size_ - 1); },
                  ThrowsMessage<UsageError>(HasSubstr("requires_grad of parameter 1 is ")))
          << way;
      if (rank_ == size_ - 1) optimizer->param_groups().pop_back();
      step(false);
      EXPECT_TRUE(p.eq(-1 - k).all().item<bool>()) << way << p;
    }
  }
}

TEST_P(OptimizerTest, AParameterThatOneRankRemovesIsTheSameErrorOnAll) {
  if (size_ == 1) return;
  const at::Tensor p = parameter({3}), q = parameter({6});
  const auto optimizer = sgd({p});
  optimizer->actual().add_param_group(OptimizerParamGroup({q}));
  optimizer->zero_grad();
  if (rank_ == 0) optimizer->param_groups().pop_back();
  EXPECT_THAT(
      [&] {
        (p.sum() + q.sum()).backward();
        optimizer->step();
      },
      ThrowsMessage<UsageError>(HasSubstr("requires_grad of parameter 1 is absent on rank 0 and true on rank 1")));
}

TEST_P(OptimizerTest, AnAddedParameterOnAnotherDeviceOfOneRankIsTheSameErrorOnAll) {
  const at::Tensor p = parameter({3});
  const auto optimizer = sgd({p});
  const bool elsewhere = rank_ == size_ - 1;
  const at::Tensor added = torch::zeros({3}, elsewhere ? at::kMeta : at::kCPU).requires_grad_();
  optimizer->actual().add_param_group(OptimizerParamGroup({added}));
  EXPECT_THAT([&] { optimizer->zero_grad(); }, ThrowsMessage<ArgumentError>(HasSubstr("a parameter is on meta")));
}

}  // namespace
}  // namespace mn
