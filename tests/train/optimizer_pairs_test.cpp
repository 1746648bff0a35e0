// Two optimizers in one loop: each counts the samples of its own losses.
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

}  // namespace
}  // namespace mn
