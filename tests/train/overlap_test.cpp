// What overlap does between a backward and the step.
#include <algorithm>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn {
namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;

/// Four parameters, each a bucket of its own. Rank 0 is ahead of the others, so its reductions cannot end early.
class Overlap : public testing::TestWithParam<std::string> {
 protected:
  static constexpr int kSize = 1003;

  Overlap() {
    for (int i = 0; i < 4; ++i) parameters_.push_back(torch::zeros({kSize}).requires_grad_());
    optimizer_ = create_multi_node_optimizer(
        std::make_unique<SGD>(parameters_, SGDOptions(1)), comm_,
        {.overlap = true, .check_gradients = false, .deterministic = true, .bucket_bytes = 16});
    optimizer_->zero_grad();
  }

  /// Rank 0 does it first, the others when it is done.
  void rank_zero_first(const std::function<void()>& work) {
    if (comm_->rank() == 0) work();
    comm_->barrier();
    if (comm_->rank() != 0) work();
  }

  void backward(double gradient) {
    at::Tensor loss = torch::zeros({});
    for (const auto& parameter : parameters_) loss = loss + parameter.sum() * gradient;
    loss.backward();
  }

  void expect_parameters(double value) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      EXPECT_TRUE(parameters_[i].allclose(torch::full({kSize}, value))) << "parameter " << i << parameters_[i];
    }
  }

  std::shared_ptr<Communicator> comm_ = create_communicator(GetParam(), MPI_COMM_WORLD, {.device = Device{}});
  std::vector<at::Tensor> parameters_;
  std::unique_ptr<MultiNodeOptimizer> optimizer_;
};

TEST_P(Overlap, NobodyReadsGradientsAfterBackward) {
  if (comm_->size() == 1) return;  // nothing overlaps
  rank_zero_first([&] {
    backward(1);
    for (const auto& parameter : parameters_) {  // torch, which counts changes, does not see this one
      std::fill_n(static_cast<float*>(parameter.grad().data_ptr()), kSize, 1e6F);
    }
  });
  optimizer_->step();
  expect_parameters(-1);
}

TEST_P(Overlap, ASecondBackwardWaitsForNoRank) {
  const double ranks = comm_->size();
  for (int step = 1; step <= 3; ++step) {
    rank_zero_first([&] {
      backward(comm_->rank() + 1);
      backward(2);
    });
    optimizer_->step();
    optimizer_->zero_grad();
    expect_parameters(-step * (2 + (ranks + 1) / 2));
  }
}

TEST_P(Overlap, ABackwardThatThrowsIsForgotten) {
  rank_zero_first([&] {
    const at::Tensor x = parameters_[0] * 1;
    x.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("no gradient"); });
    EXPECT_THROW((x.sum() + parameters_[3].sum() * 5).backward(), std::runtime_error);
    optimizer_->zero_grad();
    backward(3);
  });
  optimizer_->step();
  expect_parameters(-3);
}

INSTANTIATE_TEST_SUITE_P(Backends, Overlap, testing::Values("flat", "hierarchical"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mn
