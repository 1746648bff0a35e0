// What the optimizer does where MPI has no MPI_THREAD_MULTIPLE.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/trainer/optimizer.hpp>

static bool has_threads = true;

extern "C" int MPI_Query_thread(int* provided) {
  if (has_threads) return PMPI_Query_thread(provided);
  *provided = MPI_THREAD_SERIALIZED;
  return MPI_SUCCESS;
}

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class ThreadSupportTest : public ::testing::Test {
 protected:
  ThreadSupportTest() { has_threads = false; }
  ~ThreadSupportTest() override { has_threads = true; }

  std::shared_ptr<Communicator> comm_ = create_communicator("flat", MPI_COMM_WORLD, {.device = Device{}});

  /// The parameter after two steps of SGD.
  at::Tensor train(const OptimizerOptions& options) {
    const at::Tensor p = torch::zeros({3}).requires_grad_();
    const auto optimizer = create_multi_node_optimizer(
        std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{p}, torch::optim::SGDOptions(1)), comm_, options);
    for (int step = 0; step < 2; ++step) {
      optimizer->zero_grad();
      (p.sum() * (comm_->rank() + 1)).backward();
      optimizer->step();
    }
    return p.detach();
  }
};

TEST_F(ThreadSupportTest, TrainingGoesOnWithoutThreads) {
  EXPECT_TRUE(train({}).equal(torch::full({3}, -(comm_->size() + 1.0))));
}

TEST_F(ThreadSupportTest, WhatNeedsThemSaysSo_from_2_ranks) {
  for (const OptimizerOptions& options : {OptimizerOptions{.overlap = true}, {.double_buffering = true}}) {
    EXPECT_THAT([&] { train(options); },
                ThrowsMessage<UsageError>(HasSubstr("switch overlap and double buffering off")));
  }
}

}  // namespace
}  // namespace mn
