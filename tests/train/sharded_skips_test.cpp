// A rank leaves out a call of a sharded training that all ranks must make: every rank throws, and none hangs.
#include <chrono>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <mn/core/error.hpp>

#include "tests/train/sharded_training.hpp"

namespace mn::sharded {
namespace {

enum class Skipped { kZeroGrad, kStep, kUpdate };

std::string name_of(Skipped what) {
  return what == Skipped::kZeroGrad ? "zero_grad()" : what == Skipped::kStep ? "step()" : "an update";
}

/// Trains; in step 2 the last rank leaves out a call. Returns this rank's error; empty: none.
std::string error_of(Shard shard, Skipped skipped, const std::string& backend) {
  const auto comm = create_communicator(backend, MPI_COMM_WORLD, {.device = Device{}});
  Training training(shard, {}, comm);
  try {
    for (int step = 0; step < 6; ++step) {
      if (step == 2) comm->set_timeout(std::chrono::milliseconds(500));
      const bool skips = step == 2 && comm->rank() == comm->size() - 1;
      if (skips && skipped == Skipped::kUpdate) continue;
      if (!skips || skipped != Skipped::kZeroGrad) training.optimizer().zero_grad();
      const at::Tensor loss = training.model().forward(torch::randint(31, {2, 5}));
      training.optimizer().scale_loss(loss, 10).backward();
      if (!skips || skipped != Skipped::kStep) training.optimizer().step(10);
    }
    comm->barrier();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ShardedSkips, EndInAnErrorOnEachRank_from_2_ranks) {
  for (const std::string backend : {"naive", "hierarchical"}) {
    for (const Skipped skipped : {Skipped::kZeroGrad, Skipped::kStep, Skipped::kUpdate}) {
      for (const Shard shard : {Shard::kOptimizer, Shard::kGradients, Shard::kParameters}) {
        const std::string error = error_of(shard, skipped, backend);
        EXPECT_TRUE(error.find("rank ") != std::string::npos || error.find("is sharded and") != std::string::npos)
            << "without " << name_of(skipped) << ", --shard " << shard_name(shard) << ", " << backend << ": " << error;
        MPI_Barrier(MPI_COMM_WORLD);  // ranks give up at different times
      }
    }
  }
}

}  // namespace
}  // namespace mn::sharded
