// Trains under autocast with parameters divided among the ranks, and compares with plain data parallel under autocast.
#include <algorithm>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/train/sharded_net.hpp"
#include "tests/train/sharded_training.hpp"
#include "tests/train/toy.hpp"

namespace mn::sharded {
namespace {

using toy::world;

/// The largest difference between trainings with and without sharded parameters. -1: the bits are equal.
float difference(const Case& how) {
  const std::vector<at::Tensor> plain = Training(Shard::kNone, how, world()).run();
  const std::vector<at::Tensor> sharded = Training(Shard::kParameters, how, world()).run();
  float largest = -1;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (torch::equal(plain[i], sharded[i])) continue;
    largest = std::max(largest, (plain[i] - sharded[i]).abs().max().item<float>());
  }
  return largest;
}

TEST(ShardedAutocast, EqualsPlainBitForBit) {
  const std::pair<std::string, Case> cases[] = {{"an MLP", {}},
                                                {"attention", {.attends = true}},
                                                {"unused parameters", {.unused = true}},
                                                {"recomputation", {.recompute = true, .attends = true}},
                                                {"accumulation", {.accumulate = 3}},
                                                {"a module used twice", {.twice = true}},
                                                {"frozen parameters", {.freezes = true}},
                                                {"two optimizers", {.two = true}},
                                                {"evaluations", {.evaluates = true, .attends = true}},
                                                {"clipped values", {.clip_value = 1e-3}}};
  for (auto [name, how] : cases) {
    how.autocast = at::kBFloat16;
    EXPECT_EQ(difference(how), -1) << name;
  }
  EXPECT_EQ(difference({.scaler = true, .autocast = at::kHalf}), -1) << "float16 with a scaler";
}

/// Sums over ranks or over parts of gradients have another order, as in sharding_test.cpp.
TEST(ShardedAutocast, EqualsPlainButForRounding) {
  constexpr float kTolerance = 1e-6F;
  EXPECT_LT(difference({.clip_norm = 0.1, .autocast = at::kBFloat16}), kTolerance);
  EXPECT_LT(difference({.recompute = true, .twice = true, .autocast = at::kBFloat16}), kTolerance);
}

TEST(ShardedAutocast, EqualsPlainIfRanksUseDifferentBlocks_from_2_ranks) {
  EXPECT_EQ(difference({.absent = true, .autocast = at::kBFloat16}), -1);
  EXPECT_LT(difference({.differs = true, .autocast = at::kBFloat16}), 1e-6F);
}

/// Views of matrices, an operator without autocast, and a convolution use the weights of one block.
TEST(ShardedAutocast, EqualsPlainIfOperatorsUseViews) {
  const auto extra = [](test::ShardedNet& net) {
    const at::Tensor weight = net.blocks[1]->named_parameters()["1.weight"];  // (49, 24)
    const at::Tensor x = torch::ones({5, 24});
    at::Tensor sum = torch::matmul(x, weight.t()).sum() + torch::linear(x, weight.narrow(0, 8, 16)).sum();
    sum = sum + torch::linear(x.narrow(1, 0, 12), weight.narrow(1, 3, 12)).sum();  // rows with gaps
    sum = sum + weight.square().sum() + torch::conv1d(x.t().unsqueeze(0), weight.unsqueeze(2)).square().sum();
    return sum.to(at::kFloat);
  };
  test::ShardedTraining how = {.autocast = true, .extra = extra};
  const std::vector<at::Tensor> plain = test::train(how, world());
  how.shard = {.what = Shard::kParameters, .unit_bytes = 0};
  const std::vector<at::Tensor> sharded = test::train(how, world());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(torch::equal(plain[i], sharded[i])) << i;
}

/// Copies from before the write are not used again.
TEST(ShardedAutocast, CopiesFollowWrites) {
  Training training(Shard::kParameters, {}, world());
  at::Tensor weight = training.model().blocks->ptr<BlockImpl>(0)->wide->weight;
  const auto sum = [&] {
    const at::NoGradGuard no_grad;
    const AutocastScope autocast(at::kBFloat16, world()->device());
    return torch::linear(torch::ones({1, 24}), weight).sum().item<float>();
  };
  const auto write = [&](float value) {
    const WholeParameters whole(training.model());
    const at::NoGradGuard no_grad;
    weight.fill_(value);
    EXPECT_EQ(sum(), 24 * 49 * value);
  };
  const ShardPass pass(training.model());
  for (const float value : {1, 2}) {
    write(value);
    EXPECT_EQ(sum(), 24 * 49 * value);
  }
}

}  // namespace
}  // namespace mn::sharded
