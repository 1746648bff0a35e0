// Trains with optimizer state, gradients and parameters divided among the ranks, and compares with plain data parallel.
#include <gtest/gtest.h>

#include "tests/train/sharded_training.hpp"
#include "tests/train/toy.hpp"

namespace mn::sharded {
namespace {

using toy::world;

/// The results have equal bits if `tolerance` is 0; else they differ by less than `tolerance`, because sums of the
/// ranks' pieces have another order.
void expect_equal(const Case& how, double tolerance = 0, const std::shared_ptr<Communicator>& comm = world()) {
  const std::vector<at::Tensor> plain = Training(Shard::kNone, how, comm).run();
  for (const Shard what : {Shard::kOptimizer, Shard::kGradients, Shard::kParameters}) {
    const std::vector<at::Tensor> sharded = Training(what, how, comm).run();
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(tolerance > 0 ? torch::allclose(plain[i], sharded[i], tolerance, tolerance)
                                : torch::equal(plain[i], sharded[i]))
          << "tensor " << i << " with shard " << static_cast<int>(what) << ": "
          << (plain[i] - sharded[i]).abs().max().item<float>();
    }
  }
}

constexpr double kRounding = 1e-6;

/// The world's ranks share memory.
const std::shared_ptr<Communicator>& node() {
  static const auto comm = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
  return comm;
}

TEST(Sharding, EqualsPlainDataParallel) { expect_equal({}); }
TEST(Sharding, EqualsPlainWithUnusedParameters) { expect_equal({.unused = true}); }
TEST(Sharding, EqualsPlainWithRecomputation) { expect_equal({.recompute = true}); }
TEST(Sharding, EqualsPlainWithAccumulation) { expect_equal({.accumulate = 3}); }
// Each backward is reduced; so the sum over ranks comes before the sum over backwards.
TEST(Sharding, ReducesEachBackward) { expect_equal({.keep_gradients = false, .accumulate = 3}, kRounding); }
TEST(Sharding, EqualsPlainWithModuleUsedTwice) { expect_equal({.twice = true}); }
// The first step does not know yet that a backward makes each gradient in two parts, and reduces each part.
TEST(Sharding, EqualsPlainWithRecomputedModuleUsedTwice) {
  expect_equal({.recompute = true, .twice = true}, kRounding);
}
TEST(Sharding, EqualsPlainWithFrozenParameters) { expect_equal({.freezes = true}); }
TEST(Sharding, EqualsPlainWithOverflowOnOneRank) { expect_equal({.scaler = true}); }
TEST(Sharding, EqualsPlainWithTwoOptimizers) { expect_equal({.two = true}); }
TEST(Sharding, EqualsPlainWithTwoOptimizersInAnotherOrder) { expect_equal({.two = true, .alternates = true}); }
TEST(Sharding, EqualsPlainWithEvaluations) { expect_equal({.evaluates = true}); }
// In the first step the ranks agree on the unit of weights, which plain training chooses otherwise.
TEST(Sharding, EqualsPlainWithUnevenSamples) {
  expect_equal({.uneven = true, .optimizer = Case::Optimizer::kSgd}, kRounding);
}
TEST(Sharding, EqualsPlainWithUnevenSamplesAfterTheFirstStep) { expect_equal({.uneven_later = true}); }
TEST(Sharding, EqualsPlainWithRankWithoutSamples_from_2_ranks) { expect_equal({.absent = true}); }
TEST(Sharding, EqualsPlainWithRanksThatUseDifferentBlocks_from_2_ranks) { expect_equal({.differs = true}, kRounding); }
TEST(Sharding, EqualsPlainWithSchedule) { expect_equal({.schedule = true}); }
TEST(Sharding, EqualsPlainWithEqualWeights) { expect_equal({.weighs = false}); }
TEST(Sharding, EqualsPlainWithSgd) { expect_equal({.optimizer = Case::Optimizer::kSgd}); }
TEST(Sharding, EqualsPlainWithClippedValues) { expect_equal({.clip_value = 1e-3}); }
// The squares of a norm are added piece by piece.
TEST(Sharding, EqualsPlainWithClippedNorm) { expect_equal({.clip_norm = 0.1}, kRounding); }
TEST(Sharding, EqualsPlainWithLamb) { expect_equal({.optimizer = Case::Optimizer::kLamb}, kRounding); }
TEST(Sharding, EqualsPlainWithLars) { expect_equal({.optimizer = Case::Optimizer::kLars}, kRounding); }
TEST(ShardingInSharedMemory, EqualsPlain) { expect_equal({.unused = true, .evaluates = true}, 0, node()); }
TEST(ShardingInSharedMemory, EqualsPlainWithRecomputation) { expect_equal({.recompute = true}, 0, node()); }
TEST(ShardingInSharedMemory, EqualsPlainWithAccumulation) { expect_equal({.accumulate = 3}, 0, node()); }
TEST(ShardingInSharedMemory, EqualsPlainWithFrozenParameters) { expect_equal({.freezes = true}, 0, node()); }
TEST(ShardingInSharedMemory, EqualsPlainWithTwoOptimizers) { expect_equal({.two = true}, 0, node()); }
TEST(ShardingInSharedMemory, EqualsPlainWithOverflowOnOneRank) { expect_equal({.scaler = true}, 0, node()); }
TEST(ShardingInSharedMemory, EqualsPlainWithRankWithoutSamples_from_2_ranks) {
  expect_equal({.absent = true}, 0, node());
}
TEST(ShardingInSharedMemory, EqualsPlainWithRanksThatUseDifferentBlocks_from_2_ranks) {
  expect_equal({.differs = true}, kRounding, node());
}

}  // namespace
}  // namespace mn::sharded
