// Steps whose loss has collective calls in it, on ranks with unequal parts of the minibatch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// A loss over all ranks' embeddings, and one with a sum over ranks in it, of uneven minibatches.
class WeightedStepTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kSamples = 14;
  /// Each rank has two samples, the last one the rest.
  [[nodiscard]] static std::pair<std::int64_t, std::int64_t> part(const Communicator& comm) {
    const std::int64_t begin = 2 * comm.rank();
    return {begin, comm.rank() + 1 == comm.size() ? kSamples - begin : 2};
  }
  [[nodiscard]] static at::Tensor loss(const std::shared_ptr<Communicator>& comm, torch::nn::Linear& net,
                                       const at::Tensor& x, const at::Tensor& y) {
    const auto [begin, own] = part(*comm);
    const at::Tensor z = torch::tanh(net(x.narrow(0, begin, own)));
    const at::Tensor all = all_gather(comm, torch::tanh(net(y.narrow(0, begin, own))));
    const at::Tensor mean = all_reduce(comm, z.sum(0)) / static_cast<double>(kSamples);
    return torch::nn::functional::cross_entropy(z.matmul(all.t()) * 3, torch::arange(begin, begin + own)) +
           (z - mean).square().mean();
  }
  template <class Step>
  at::Tensor train(const std::shared_ptr<Communicator>& comm, bool overlap, const Step& step) {
    torch::manual_seed(2);
    torch::nn::Linear net(5, 4);
    const auto optimizer = create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(net->parameters(), 0.5),
                                                       comm, {.overlap = overlap, .bucket_bytes = 16});
    torch::manual_seed(3);
    for (int k = 0; k < 4; ++k) {
      const at::Tensor x = torch::randn({kSamples, 5}), y = x + 0.1 * torch::randn({kSamples, 5});
      optimizer->zero_grad();
      step(*optimizer, loss(comm, net, x, y), static_cast<double>(part(*comm).second));
    }
    return torch::nn::utils::parameters_to_vector(net->parameters()).detach();
  }

  std::shared_ptr<Communicator> comm_ = create_communicator("auto", MPI_COMM_WORLD, {.device = Device{}});
};

TEST_F(WeightedStepTest, EqualsOneRankWithAllSamples) {
  const auto step = [](MultiNodeOptimizer& optimizer, const at::Tensor& loss, double samples) {
    optimizer.scale_loss(loss, samples).backward();
    optimizer.step(samples);
  };
  const at::Tensor alone = train(comm_->split(comm_->rank(), 0), false, step);
  for (const bool overlap : {false, true}) {
    EXPECT_TRUE(torch::allclose(train(comm_, overlap, step), alone, 1e-4, 1e-5)) << overlap;
  }
}

/// At the step whose mean is wrong, or at the step that would apply it.
TEST_F(WeightedStepTest, WithoutItsWeightALossOfUnequalRanksIsAnErrorAlsoLater) {
  for (const OptimizerOptions& options :
       {OptimizerOptions{.overlap = true}, {.double_buffering = true}, {.local_steps = 2}}) {
    torch::manual_seed(2);
    torch::nn::Linear net(5, 4);
    const auto optimizer =
        create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(net->parameters(), 0.5), comm_, options);
    const auto samples = static_cast<double>(part(*comm_).second);
    const auto train_two_steps = [&] {
      for (int k = 0; k < 2; ++k) {
        optimizer->zero_grad();
        loss(comm_, net, torch::ones({kSamples, 5}), torch::ones({kSamples, 5})).backward();
        optimizer->step(samples);
      }
    };
    if (samples == static_cast<double>(kSamples) / comm_->size()) {
      train_two_steps();  // others throw
    } else {
      EXPECT_THAT(train_two_steps, ThrowsMessage<ArgumentError>(HasSubstr("scale_loss(loss, samples).backward()")));
    }
  }
}

TEST_F(WeightedStepTest, WithoutItsWeightALossOfUnequalRanksIsAnError) {
  const double mean = static_cast<double>(kSamples) / comm_->size();
  const auto step = [&](MultiNodeOptimizer& optimizer, const at::Tensor& loss, double samples) {
    loss.backward();
    const auto call = [&] { optimizer.step(samples); };
    if (samples == mean) return call();  // others throw
    EXPECT_THAT(call, ThrowsMessage<ArgumentError>(HasSubstr("scale_loss(loss, samples).backward()")));
  };
  train(comm_, false, step);
  const auto equal = [&](MultiNodeOptimizer& optimizer, const at::Tensor& loss, double) {
    loss.backward();
    optimizer.step();
  };
  train(comm_, false, equal);
}

TEST_F(WeightedStepTest, AnotherWeightAtTheStepIsAnError) {
  const auto step = [](MultiNodeOptimizer& optimizer, const at::Tensor& loss, double samples) {
    optimizer.scale_loss(loss, samples).backward({}, /*keep_graph=*/true);
    EXPECT_THAT([&] { optimizer.step(samples + 1); }, ThrowsMessage<ArgumentError>(HasSubstr("but the step counts")));
    optimizer.zero_grad();
    optimizer.scale_loss(loss, samples).backward();
    optimizer.step(samples);
  };
  train(comm_, false, step);
}

}  // namespace
}  // namespace mn
