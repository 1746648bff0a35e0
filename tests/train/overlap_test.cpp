// What overlap does between a backward and the step.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
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
    backward(0);
    optimizer_->step();  // from the first step on there is a buffer for copies
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

TEST_P(Overlap, NobodyReadsGradientsAfterBackward_from_2_ranks) {
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

/// No promise binds, as a backward ran within another, so copies go early, multiplied. Rank 0's are not complete when
/// its step multiplies the gradients.
TEST_P(Overlap, AStepMayFollowABackwardThatThrew) {
  const at::Tensor outer = parameters_[0] * 1;
  outer.register_hook([&](const at::Tensor&) {
    const at::AutoGradMode with_graph(true);
    (parameters_[1].sum() * 0).backward();
  });
  optimizer_->announce_step(2);
  (outer.sum() * 0).backward();
  optimizer_->step(2);
  optimizer_->zero_grad();
  const std::int64_t samples = comm_->rank() == 0 ? 6 : 2;
  rank_zero_first([&] {
    optimizer_->announce_step(samples);
    const at::Tensor x = parameters_[0] * 1;
    x.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("no gradient"); });
    at::Tensor loss = x.sum();
    for (const int i : {1, 2, 3}) loss = loss + parameters_[i].sum();
    EXPECT_THROW(loss.backward(), std::runtime_error);
  });
  optimizer_->step(samples);
  EXPECT_TRUE(parameters_[0].equal(torch::zeros({kSize})));
  for (const int i : {1, 2, 3}) EXPECT_TRUE(parameters_[i].allclose(torch::full({kSize}, -1.0))) << parameters_[i];
}

/// Ranks have sent different numbers of buckets by then.
TEST_P(Overlap, SynchronizeAfterABackwardWaitsForNoOtherRanksBuckets) {
  const double ranks = comm_->size();
  for (int step = 1; step <= 3; ++step) {
    if (comm_->rank() == 0) {
      backward(2);
    } else {
      (parameters_[1].sum() * 2).backward();
    }
    optimizer_->synchronize();
    comm_->barrier();  // as an evaluation does
    if (step == 3) {   // a freeze of all ranks
      parameters_[3].requires_grad_(false);
      parameters_[3].mutable_grad().reset();
    }
    optimizer_->step();
    optimizer_->zero_grad();
  }
  EXPECT_TRUE(parameters_[0].allclose(torch::full({kSize}, -6 / ranks))) << parameters_[0];
  EXPECT_TRUE(parameters_[1].allclose(torch::full({kSize}, -6.0))) << parameters_[1];
  EXPECT_TRUE(parameters_[3].allclose(torch::full({kSize}, -4 / ranks))) << parameters_[3];
}

/// What one rank has sent early, the others send before the memory goes.
TEST_P(Overlap, TheOptimizerMayGoAfterABackwardOfOneRank) {
  if (comm_->rank() == 0) backward(1);
  optimizer_.reset();
  double sum = 1;
  comm_->allreduce(std::span(&sum, 1));
  EXPECT_EQ(sum, comm_->size());
}

/// Trains a net whose parameters backward does not reach in their order, whose last layer is not always used, and whose
/// steps have other samples on each rank; returns its parameters.
std::vector<at::Tensor> train_announced(const std::shared_ptr<Communicator>& comm, OptimizerOptions options,
                                        const std::function<bool(int step)>& announces) {
  torch::manual_seed(5);
  torch::nn::Linear last(20, 3), middle(20, 20), first(7, 20), unused(4, 4);
  std::vector<at::Tensor> parameters;
  for (const auto& layer : {middle, unused, first, last}) {
    for (const auto& parameter : layer->parameters()) parameters.push_back(parameter);
  }
  options.bucket_bytes = 64;
  const auto optimizer = create_multi_node_optimizer(
      std::make_unique<SGD>(parameters, SGDOptions(0.1).momentum(0.9).weight_decay(0.1)), comm, options);
  torch::manual_seed(100 + comm->rank());
  for (int step = 0; step < 24; ++step) {
    const double samples = 1 + (step + comm->rank()) % 3;
    if (step != 7) optimizer->zero_grad();  // once a gradient adds to the mean
    at::Tensor y = torch::tanh(middle(torch::tanh(first(torch::randn({4, 7})))));
    if ((step + comm->rank()) % 5 > 0) y = last(y);
    if (announces(step)) optimizer->announce_step(samples);
    y.pow(2).sum().backward();
    optimizer->step(samples);
  }
  std::vector<at::Tensor> result;
  for (const auto& parameter : parameters) result.push_back(parameter.detach().clone());
  return result;
}

/// In place, as copies, and in turns. Where a rank does not use the last layer it sends nothing early.
TEST_P(Overlap, APromiseChangesNoBit) {
  const std::vector<std::function<bool(int)>> promises = {[](int) { return true; }, [](int) { return false; },
                                                          [](int step) { return step % 3 > 0; },
                                                          [](int step) { return step >= 8; }};
  for (const Compression kind : {Compression::kNone, Compression::kBf16, Compression::kTopK}) {
    const CompressionOptions compression = {.kind = kind, .density = 0.2};
    const auto expected = train_announced(comm_, {.overlap = false, .compression = compression}, promises[1]);
    for (std::size_t way = 0; way < promises.size(); ++way) {
      for (const bool deterministic : {false, true}) {
        const auto found = train_announced(
            comm_, {.overlap = true, .compression = compression, .deterministic = deterministic}, promises[way]);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(found[i].equal(expected[i])) << "way " << way << ", compression " << static_cast<int>(kind)
                                                   << ", parameter " << i << ", deterministic " << deterministic;
        }
      }
    }
  }
}

/// In the mixed steps some ranks could reduce in place, and other ranks have gradients that a second backward changes.
/// The step before decides whether gradients are reduced in place or as copies.
TEST_P(Overlap, ASecondBackwardOfSomeRanksIsNotLost) {
  const double ranks = comm_->size();
  double expected = 0;
  const auto step = [&](bool twice, bool announces, double mean) {
    optimizer_->zero_grad();
    if (twice) backward(1);
    if (announces) optimizer_->announce_step(2);
    backward(1);
    optimizer_->step(2);
    expect_parameters(expected -= mean);
  };
  step(false, true, 1);  // the first announced step looks for inner backwards
  for (const bool announced_before : {true, false}) {
    step(false, announced_before, 1);
    step(comm_->rank() > 0, comm_->rank() == 0, 2 - 1 / ranks);  // rank 0 alone promises
    step(false, announced_before, 1);
    step(comm_->rank() == 0, true, 1 + 1 / ranks);  // all ranks announce the last backward
  }
}

/// What backward sends by itself in the step after the first one of a plain loop, before which come `announced` steps;
/// waits for it as long as it takes if it should.
std::uint64_t sent_during_backward(const OptimizerOptions& options, bool on_nodes, bool expected, int announced = 0) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (on_nodes) setenv("MN_NODE_NAME", ("node" + std::to_string(rank)).c_str(), 1);
  const auto comm = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
  unsetenv("MN_NODE_NAME");
  const at::Tensor p = torch::zeros({1000}).requires_grad_();
  const auto optimizer =
      create_multi_node_optimizer(std::make_unique<SGD>(std::vector{p}, SGDOptions(1)), comm, options);
  const int last = announced + 1;
  std::uint64_t sent = 0;
  for (int step = 0; step <= last; ++step) {
    const std::uint64_t before = optimizer->bytes_sent();
    optimizer->zero_grad();
    if (step < announced) optimizer->announce_step(1);
    p.sum().backward();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(expected && step == last ? 30 : 0);
    while (optimizer->bytes_sent() == before && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    sent = optimizer->bytes_sent() - before;
    optimizer->step(1);
  }
  EXPECT_TRUE(p.equal(torch::full({1000}, -1.0 - last)));
  return sent;
}

TEST(OverlapByDefault, IsUsedBetweenNodes) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(sent_during_backward({}, true, size > 1), size > 1 ? 4000 : 0);
  EXPECT_EQ(sent_during_backward({}, true, size > 1, 1), size > 1 ? 4000 : 0);
  EXPECT_EQ(sent_during_backward({}, false, false), 0);
  EXPECT_EQ(sent_during_backward({.overlap = false}, true, false), 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, Overlap, testing::Values("flat", "hierarchical"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mn
