#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::bytes_of;
using toy::same_on_all;
using toy::world;

constexpr std::int64_t kSamples = 24;

/// Least squares over 24 samples, or a share of them.
struct Fit {
  at::Tensor weights = torch::tensor({-1.0, 1.5, 0.3}, at::kDouble).requires_grad_();
  at::Tensor x, y;
  std::unique_ptr<MultiNodeOptimizer> optimizer;
  int calls = 0;

  Fit(const std::shared_ptr<Communicator>& comm, std::int64_t first, std::int64_t last, const OptimizerOptions& how)
      : x(torch::linspace(-2, 2, kSamples, at::kDouble).slice(0, first, last)),
        y(torch::exp(x * 0.7) * 2 + torch::sin(x * 3)) {
    const auto settings = torch::optim::LBFGSOptions(0.5).max_iter(6).line_search_fn(std::string("strong_wolfe"));
    optimizer =
        create_multi_node_optimizer(std::make_unique<torch::optim::LBFGS>(std::vector{weights}, settings), comm, how);
  }
  at::Tensor loss() {
    ++calls;
    optimizer->zero_grad();
    const auto prediction = torch::exp(x * weights[0]) * weights[1] + torch::sin(x * 3) * weights[2];
    at::Tensor loss = (prediction - y).square().mean();
    loss.backward();
    return loss;
  }
  double step() {
    return optimizer->step([this] { return loss(); }, x.size(0)).item<double>();
  }
};

/// Uneven shares: rank 0 has one sample more for each rank after it.
std::pair<std::int64_t, std::int64_t> share_of(const Communicator& comm) {
  const std::int64_t even = kSamples / comm.size();
  const auto begin = [&](std::int64_t rank) {
    return rank == 0 ? 0 : rank == comm.size() ? kSamples : rank * even + 1;
  };
  return {begin(comm.rank()), begin(comm.rank() + 1)};
}

TEST(Closure, LbfgsTakesTheSameStepsOnAnyNumberOfRanks) {
  for (const bool overlap : {false, true}) {
    const auto [first, last] = share_of(*world());
    Fit all(world(), first, last, {.overlap = overlap, .deterministic = true});
    const auto alone_comm = std::shared_ptr<Communicator>(world()->split(world()->rank(), 0));
    Fit alone(alone_comm, 0, kSamples, {});
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(all.step(), alone.step(), 1e-6);
      EXPECT_EQ(all.calls, alone.calls);
      EXPECT_TRUE(torch::allclose(all.weights, alone.weights, 1e-4, 1e-6)) << all.weights << alone.weights;
      EXPECT_TRUE(same_on_all(bytes_of({all.weights})));
    }
    EXPECT_LT(alone.step(), 1e-3);
    (void)all.step();
  }
}

TEST(Closure, ARankWithoutSamplesTakesPart) {
  const bool has_samples = world()->rank() == 0;
  Fit fit(world(), 0, has_samples ? kSamples : 0, {});
  const auto closure = [&] { return has_samples ? fit.loss() : (fit.optimizer->zero_grad(), torch::zeros({1})); };
  double before = 0;
  for (int i = 0; i < 3; ++i) {
    const double now = fit.optimizer->step(closure, has_samples ? kSamples : 0).item<double>();
    EXPECT_TRUE(i == 0 || now < before);
    before = now;
  }
  EXPECT_TRUE(same_on_all(bytes_of({fit.weights})));
}

TEST(Closure, LossesOfFloat16ParametersMayBeWeighed) {
  for (const bool overlap : {false, true}) {
    const at::Tensor w = torch::ones({2}, at::kHalf).requires_grad_();
    const auto optimizer =
        create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(std::vector{w}, torch::optim::SGDOptions(1)),
                                    world(), {.overlap = overlap});
    const double samples = world()->rank() + 1;
    for (int k = 0; k < 2; ++k) {
      (void)optimizer->step(
          [&] {
            optimizer->zero_grad();
            const at::Tensor loss = w.sum() * 0.5;
            optimizer->scale_loss(loss, samples).backward();
            return loss;
          },
          samples);
    }
    EXPECT_TRUE(torch::allclose(w, torch::zeros({2}, at::kHalf), 1e-2, 1e-2)) << w;
  }
}

TEST(Closure, HooksSeeEachMeanGradient) {
  Fit fit(world(), 0, kSamples, {});
  int seen = 0;
  fit.optimizer->add_hook("count", [&](const auto&) { ++seen; });
  (void)fit.step();
  EXPECT_EQ(seen, fit.calls);
  EXPECT_GT(seen, 1);
}

TEST(Closure, WhatComputesTheLossOnceExcludesIt) {
  for (const OptimizerOptions& how : {OptimizerOptions{.double_buffering = true}, OptimizerOptions{.local_steps = 2}}) {
    Fit fit(world(), 0, kSamples, how);
    EXPECT_THROW((void)fit.step(), UsageError);
  }
  Fit fit(world(), 0, kSamples, {});
  EXPECT_THROW((void)fit.optimizer->step(LossClosure()), ArgumentError);
}

}  // namespace
}  // namespace mn
