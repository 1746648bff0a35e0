// Two optimizers in one loop: each counts the samples of its own losses, and a parameter may move to the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using toy::world;

/// Of a step in which another optimizer weighs losses, too.
TEST(OptimizerPairs, SamplesOfAnothersLossesAreNotOnesOwn) {
  const at::Tensor a = torch::zeros({3}).requires_grad_(), b = torch::zeros({3}).requires_grad_();
  const auto optimizer_of = [](const at::Tensor& p) {
    return create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(std::vector{p}, 1), world());
  };
  const auto of_a = optimizer_of(a), of_b = optimizer_of(b);
  for (const double counted : {4, 8, 4}) {
    of_a->zero_grad();
    of_b->zero_grad();
    of_a->scale_loss(a.sum(), 8).backward();
    of_b->scale_loss(b.sum(), 4).backward();
    of_a->step(8);
    if (counted == 4) {
      of_b->step(counted);
    } else {
      EXPECT_THAT([&] { of_b->step(counted); }, ThrowsMessage<ArgumentError>(HasSubstr("weight of 4.0 samples")));
    }
  }
  EXPECT_TRUE(b.eq(-2).all().item<bool>()) << b;
}

/// Whichever of the two is called first, before or after a first step, with gradients that no step has used.
TEST(OptimizerPairs, AParameterMayMoveToAnother) {
  for (const int way : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const bool has_stepped = (way & 1) != 0, new_first = (way & 2) != 0, double_buffering = (way & 4) != 0;
    const at::Tensor t = torch::zeros({10}).requires_grad_(), u = torch::zeros({3}).requires_grad_();
    const auto optimizer_of = [&](std::vector<at::Tensor> parameters) {
      return create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(std::move(parameters), 1), world(),
                                         {.double_buffering = double_buffering});
    };
    auto x = optimizer_of({t, u});
    if (has_stepped) {
      (t.sum() + u.sum()).backward();
      x->step();
    }
    if (double_buffering) x->synchronize();
    x->param_groups()[0].params().pop_back();
    auto y = optimizer_of({u});
    for (int k = 0; k < 2; ++k) {
      (new_first ? y : x)->zero_grad();
      if (k == 0 && new_first) u.sum().backward();
      if (k > 0 || has_stepped || !new_first) (new_first ? x : y)->zero_grad();
      (k == 0 && new_first ? t.sum() : t.sum() + u.sum()).backward();
      if (k == 0 && new_first) x->step();
      y->step();
      if (k > 0 || !new_first) x->step();
    }
    x->synchronize();
    y->synchronize();
    EXPECT_TRUE(t.eq(has_stepped ? -3 : -2).all().item<bool>()) << way << t;
    EXPECT_TRUE(u.eq(has_stepped ? -3 : -2).all().item<bool>()) << way << u;
  }
}

}  // namespace
}  // namespace mn
