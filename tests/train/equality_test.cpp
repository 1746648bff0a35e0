// n ranks with small batches train as one rank with a large one.
#include <algorithm>
#include <functional>

#include "optimizer_fixture.hpp"

namespace mn {
namespace {

using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::SGD;
using torch::optim::SGDOptions;

/// n ranks with batch b against one rank with batch n·b, same samples in the same order, uneven last batch included.
class EqualityTest : public OptimizerTest {
 protected:
  using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<at::Tensor>&)>;

  static constexpr std::int64_t kSamples = 23;
  static constexpr std::int64_t kBatch = 2;

  std::vector<at::Tensor> train(const std::shared_ptr<Communicator>& comm, std::int64_t batch,
                                const MakeOptimizer& make) {
    Net net;
    auto optimizer = create_multi_node_optimizer(make(net.parameters()), comm, options_);
    optimizer->add_hook("decay", weight_decay(0.01));
    optimizer->add_hook("clip", gradient_clipping(0.05));
    torch::manual_seed(1);
    const at::Tensor x = torch::randn({kSamples, 5});
    const at::Tensor y = torch::randn({kSamples, 2});
    const std::int64_t global = batch * comm->size();
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (std::int64_t begin = 0; begin < kSamples; begin += global) {
        const std::int64_t first = std::min(begin + batch * comm->rank(), kSamples);
        const std::int64_t last = std::min({first + batch, begin + global, kSamples});
        optimizer->zero_grad();
        if (last > first) {
          optimizer->announce_step(last - first);
          torch::mse_loss(net.forward(x.slice(0, first, last)), y.slice(0, first, last)).backward();
        }
        optimizer->step(last - first);
      }
    }
    return net.parameters();
  }

  void expect_equal(const MakeOptimizer& make) {
    const auto alone = comm_->split(rank_, 0);
    const auto together = train(comm_, kBatch, make);
    const auto reference = train(alone, kBatch * size_, make);
    for (std::size_t i = 0; i < reference.size(); ++i) {
      EXPECT_TRUE(torch::allclose(together[i], reference[i], 1e-4, 1e-5))
          << "parameter " << i << ": " << (together[i] - reference[i]).abs().max();
    }
  }
};

TEST_P(EqualityTest, Sgd) {
  expect_equal([](const auto& p) { return std::make_unique<SGD>(p, SGDOptions(0.1)); });
}

TEST_P(EqualityTest, Momentum) {
  expect_equal([](const auto& p) { return std::make_unique<SGD>(p, SGDOptions(0.1).momentum(0.9)); });
}

TEST_P(EqualityTest, AdamWithWeightDecay) {
  expect_equal([](const auto& p) { return std::make_unique<Adam>(p, AdamOptions(0.01).weight_decay(0.1)); });
}

INSTANTIATE_TEST_SUITE_P(Backends, EqualityTest, kWays, way_name);

}  // namespace
}  // namespace mn
