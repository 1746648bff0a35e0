// Overlap, no_sync and double buffering against the plain reduction.
#include <chrono>
#include <thread>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <mn/core/error.hpp>
#include <mn/tensor/tensor.hpp>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;

/// Trains a few steps of a net that uses a layer now and then, with two backwards a step, and returns its parameters.
std::vector<at::Tensor> train_irregularly(const std::shared_ptr<Communicator>& comm, OptimizerOptions options,
                                          bool no_sync) {
  Net net;
  options.check_gradients = false;
  auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(net.parameters(), SGDOptions(0.1).momentum(0.9)),
                                               comm, options);
  torch::manual_seed(100 + comm->rank());
  for (int k = 0; k < 20; ++k) {
    optimizer->zero_grad();
    const auto backward = [&] {
      const at::Tensor x = torch::randn({3, 5});
      // The first layer is used twice; ranks differ in whether they use the second.
      (net.forward(x, (k + comm->rank()) % 3 != 0).pow(2).sum() + net.forward(x, false).sum()).backward();
    };
    if (k % 4 == 1) {
      const auto guard = no_sync ? optimizer->no_sync() : nullptr;
      backward();
    }
    if (k % 8 == 1) net.first->weight.mutable_grad().mul_(2);  // by hand, on this rank's own
    backward();
    if (k % 5 == 3) net.first->bias.mutable_grad() = torch::ones({3}) * comm->rank();  // a gradient from elsewhere
    if (k % 7 == 4) net.first->weight.mutable_grad().add_(1);  // after its bucket may have been sent
    optimizer->step(1 + (k + comm->rank()) % 2);
  }
  std::vector<at::Tensor> result;
  for (const auto& p : net.parameters()) result.push_back(p.detach().clone());
  return result;
}

class OverlapTest : public OptimizerTest {};

TEST_P(OverlapTest, ChangesNoBit) {
  const auto direct = train_irregularly(comm_, {}, false);
  for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{40}, std::size_t{1} << 20}) {
    for (const bool deterministic : {false, true}) {
      for (const bool no_sync : {false, true}) {
        const OptimizerOptions options{.overlap = true, .deterministic = deterministic, .bucket_bytes = bucket_bytes};
        const auto overlapped = train_irregularly(comm_, options, no_sync);
        for (std::size_t i = 0; i < direct.size(); ++i) {
          EXPECT_TRUE(overlapped[i].equal(direct[i])) << "buckets of " << bucket_bytes << ", parameter " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, OverlapTest,
                         ::testing::Values(Way{"naive", false}, Way{"flat", false}, Way{"hierarchical", false}),
                         way_name);

TEST_P(OptimizerTest, NoSyncLastsAsLongAsAnyOfItsTokens) {
  const at::Tensor p = parameter({40});
  const at::Tensor added = parameter({4});
  auto optimizer = sgd({p});
  const auto sends_during_backward = [&](bool expected) {
    optimizer->zero_grad();  // which may send zeros for a change of the set
    const std::uint64_t before = optimizer->bytes_sent();
    p.sum().backward();
    // For the communication thread: as long as it takes if it should send, a moment if it should not.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(expected ? 30'000 : 20);
    while (optimizer->bytes_sent() == before && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool sent = optimizer->bytes_sent() > before;
    optimizer->step();
    return sent;
  };
  auto outer = optimizer->no_sync();
  { const auto inner = optimizer->no_sync(); }
  EXPECT_FALSE(sends_during_backward(false));
  optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({added}, std::make_unique<SGDOptions>(1)));
  EXPECT_FALSE(sends_during_backward(false));
  optimizer.reset();
  outer.reset();
  optimizer = sgd({p});
  const bool overlaps = GetParam().overlap && size_ > 1;
  EXPECT_FALSE(sends_during_backward(false)) << "the first step finds out that copies are wanted";
  EXPECT_EQ(sends_during_backward(overlaps), overlaps);
}

/// Also in the first step, which learns the order in memory.
TEST_P(OptimizerTest, EachGradientIsSentOnce) {
  const at::Tensor p = parameter({4000});
  const at::Tensor q = parameter({3000});
  const auto optimizer = sgd({p, q});
  for (int step = 1; step <= 4; ++step) {
    const std::uint64_t before = optimizer->bytes_sent();
    optimizer->zero_grad();
    (p.sum() * q.sum()).backward();
    optimizer->step();
    const std::uint64_t sent = optimizer->bytes_sent() - before;
    EXPECT_TRUE(size_ == 1 ? sent == 0 : sent >= 28'000 && sent < 28'100) << "step " << step << ": " << sent;
  }
}

/// Minibatches of another size than the first step's, and of sizes that vary: their weight is known before backward.
TEST_P(OptimizerTest, EachGradientIsSentOnceWhateverTheSamples) {
  const at::Tensor p = parameter({4000});
  const at::Tensor q = parameter({3000});
  const auto optimizer = sgd({p, q});
  double expected = 0;
  for (int step = 0; step < 5; ++step) {
    const std::int64_t samples = step == 0 ? 2 : 8 + step;
    const std::uint64_t before = optimizer->bytes_sent();
    optimizer->zero_grad();
    optimizer->announce_step(samples);
    ((p.sum() + q.sum()) * (rank_ + 1)).backward();
    optimizer->step(samples);
    const std::uint64_t sent = optimizer->bytes_sent() - before;
    EXPECT_TRUE(size_ == 1 ? sent == 0 : sent >= 28'000 && sent < 28'100) << "step " << step << ": " << sent;
    expected -= rank_sum_ / size_;
    EXPECT_TRUE(torch::allclose(p, torch::full({4000}, expected))) << "step " << step;
    EXPECT_TRUE(torch::allclose(q, torch::full({3000}, expected))) << "step " << step;
  }
}

TEST_P(OptimizerTest, FrozenParametersAreNeitherSentNorWaitedFor) {
  const at::Tensor frozen = parameter({5000}, 7).requires_grad_(false);
  const at::Tensor p = parameter({4000});
  const auto optimizer = sgd({p, frozen});
  const auto step = [&](const at::Tensor& loss, bool is_first = false) {
    const std::uint64_t before = optimizer->bytes_sent();
    const bool overlaps = GetParam().overlap && size_ > 1 && !is_first;
    optimizer->zero_grad();  // which sends zeros for a change of the set
    const std::uint64_t unchanged = optimizer->bytes_sent();
    loss.backward();
    // With overlap, backward alone sends what is there: nothing waits for a gradient that never comes.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (overlaps && optimizer->bytes_sent() == unchanged && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(optimizer->bytes_sent() > unchanged, overlaps);
    optimizer->step();
    return optimizer->bytes_sent() - before;
  };
  for (int k = 0; k < 2; ++k) {
    const std::uint64_t sent = step(p.sum() * (rank_ + 1), k == 0);
    EXPECT_TRUE(size_ == 1 ? sent == 0 : sent >= 16'000 && sent < 16'100) << sent;
  }
  EXPECT_TRUE(frozen.equal(torch::full({5000}, 7.0)));
  EXPECT_TRUE(torch::allclose(p, torch::full({4000}, -2 * rank_sum_ / size_)));

  frozen.requires_grad_();  // from here on it trains
  p.requires_grad_(false);
  const std::uint64_t sent = step(frozen.sum() * (rank_ + 1), true);
  EXPECT_TRUE(size_ == 1 ? sent == 0 : sent >= 36'000 && sent < 36'200) << sent << ": the change sends zeros of p";
  EXPECT_TRUE(torch::allclose(frozen, torch::full({5000}, 7 - rank_sum_ / size_)));
  EXPECT_TRUE(torch::allclose(p, torch::full({4000}, -2 * rank_sum_ / size_)));

  p.mutable_grad() = torch::ones({4000});
  EXPECT_THROW(optimizer->step(), UsageError) << "nobody would reduce it";
  optimizer->zero_grad();
  optimizer->step();
}

TEST_P(OptimizerTest, TheUsersOwnHooksStay) {
  struct Count : torch::autograd::PostAccumulateGradHook {
    explicit Count(int& calls) : calls_(calls) {}
    void operator()(const torch::autograd::Variable&) override { ++calls_; }
    int& calls_;
  };
  const at::Tensor p = parameter({40});
  int calls = 0;
  auto own = std::make_unique<Count>(calls);
  const auto* const address = own.get();
  torch::autograd::impl::set_post_acc_grad_hooks(p, std::move(own));
  auto optimizer = sgd({p});
  optimizer = sgd({p});  // made while the first one lives; its destructor must keep the hooks of the second
  for (int k = 1; k <= 3; ++k) {
    EXPECT_NE(torch::autograd::impl::post_acc_grad_hooks(p).get(), address);
    optimizer->zero_grad();
    p.sum().backward();
    optimizer->step();
    EXPECT_EQ(calls, k);
  }
  optimizer.reset();
  EXPECT_EQ(torch::autograd::impl::post_acc_grad_hooks(p).get(), address);
}

TEST_P(OptimizerTest, ABackwardWithoutAStepIsForgotten) {
  const at::Tensor p = parameter({40});
  const at::Tensor q = parameter({3});
  const auto optimizer = sgd({p, q});
  for (int step = 1; step <= 2; ++step) {
    optimizer->zero_grad();
    (rank_ == 0 ? p.sum() + q.sum() : q.sum()).backward();
    if (step == 1) optimizer->zero_grad();
    if (step == 2) optimizer->actual().zero_grad();
    (p.sum() * (rank_ + 1)).backward();
    optimizer->step();
    EXPECT_TRUE(torch::allclose(p, torch::full({40}, -step * rank_sum_ / size_)));
    EXPECT_TRUE(q.equal(torch::zeros({3})));
  }
}

TEST_P(OptimizerTest, DoubleBufferingAppliesThePreviousMean) {
  const at::Tensor p = parameter({5});
  auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)), comm_,
                                               {.double_buffering = true});
  double expected = 0;
  std::vector<std::pair<at::Tensor, at::Tensor>> kept;  // means that the program keeps, and copies
  for (int k = 1; k <= 4; ++k) {
    optimizer->zero_grad();
    (p.sum() * (k * (rank_ + 1))).backward();
    optimizer->step();
    expected -= (k - 1) * rank_sum_ / size_;
    EXPECT_TRUE(torch::allclose(p, torch::full({5}, expected))) << "step " << k;
    if (k > 1) kept.emplace_back(p.grad(), p.grad().clone());
  }
  for (const auto& [mean, copy] : kept) EXPECT_TRUE(mean.equal(copy)) << mean << copy;
}

/// Each rank's own gradients would have norms of their own, by which a program may decide.
TEST_P(OptimizerTest, WithoutAMeanNothingIsClipped) {
  const at::Tensor p = parameter({5});
  auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)), comm_,
                                               {.double_buffering = true});
  const auto backward = [&] {
    optimizer->zero_grad();
    (p.sum() * (rank_ + 1)).backward();
  };
  backward();
  EXPECT_EQ(clip_grad_norm(*optimizer, 0.01, 1), 0);
  EXPECT_TRUE(p.grad().equal(torch::full({5}, rank_ + 1.0)));
  optimizer->step(1);
  backward();
  EXPECT_NEAR(clip_grad_norm(*optimizer, 100, 0), std::sqrt(5) * rank_sum_ / size_, 1e-5) << "of the step before";
  optimizer->step(0);
  backward();
  EXPECT_EQ(clip_grad_norm(*optimizer, 100, 1), 0) << "no rank had samples";
}

TEST_P(OptimizerTest, DoubleBufferingLosesNothingToAnAddedParameter) {
  const at::Tensor p = parameter({5});
  const at::Tensor added = parameter({3});
  auto optimizer = create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)), comm_,
                                               {.double_buffering = true});
  const double mean = rank_sum_ / size_;
  for (const int k : {1, 10, 100}) {
    optimizer->zero_grad();
    ((p.sum() + added.sum()) * (k * (rank_ + 1))).backward();
    if (k == 10) {
      optimizer->actual().add_param_group(torch::optim::OptimizerParamGroup({added}, std::make_unique<SGDOptions>(1)));
    }
    optimizer->step();
    if (k == 10) {
      EXPECT_TRUE(torch::allclose(p, torch::full({5}, -mean))) << "the first step's mean alone";
    }
  }
  optimizer->synchronize();
  EXPECT_TRUE(torch::allclose(p, torch::full({5}, -111 * mean))) << p;
  EXPECT_TRUE(torch::allclose(added, torch::full({3}, -111 * mean)))
      << added;  // its gradients of two backwards, 1 + 10
}

TEST_P(OptimizerTest, OverlapAndDoubleBufferingExcludeEachOther) {
  const at::Tensor p = parameter({5});
  EXPECT_THROW(create_multi_node_optimizer(std::make_unique<SGD>(std::vector<at::Tensor>{p}, SGDOptions(1)), comm_,
                                           {.overlap = true, .double_buffering = true}),
               UsageError);
}

}  // namespace
}  // namespace mn
