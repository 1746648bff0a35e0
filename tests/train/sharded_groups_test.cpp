// Groups of ranks that each hold all shares: equality with plain training, replicas, checkpoints.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/sharding/pieces.hpp>

#include "tests/train/sharded_net.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using test::kAllShards;
using test::ShardedNet;
using test::train;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using toy::ToyJob;
using toy::world;

/// A communicator of all ranks, which lie on so many nodes: rank r on node r / (size / nodes), or r % nodes.
std::shared_ptr<Communicator> on_nodes(int nodes, bool in_turn = false) {
  const int rank = world()->rank(), size = world()->size();
  const int node = in_turn ? rank % nodes : rank * nodes / size;
  setenv("MN_NODE_NAME", ("node" + std::to_string(node)).c_str(), 1);
  auto comm = create_communicator("hierarchical", MPI_COMM_WORLD, {.device = Device{}});
  unsetenv("MN_NODE_NAME");
  return comm;
}

void expect_near_plain(const std::vector<at::Tensor>& plain, const ShardOptions& shard,
                       const std::shared_ptr<Communicator>& comm) {
  for (const int backwards : {1, 2}) {
    const std::vector<at::Tensor> expected = backwards == 1 ? plain : train({.backwards = 2}, comm);
    const std::vector<at::Tensor> sharded = train({.shard = shard, .backwards = backwards}, comm);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_LT((expected[i] - sharded[i]).abs().max().item<float>(), 1e-4)
          << "parameter " << i << ", " << backwards << " backwards";
    }
  }
}

/// Groups add gradients in another order than plain training, so bits differ. An update changes elements by 0.01.
TEST(ShardGroups, FollowPlainOnTwoNodes_on_4_ranks) {
  for (const bool in_turn : {false, true}) {
    const auto comm = on_nodes(2, in_turn);
    const std::vector<at::Tensor> plain = train({}, comm);
    for (const Shard what : kAllShards) {
      expect_near_plain(plain, {.what = what, .group = ShardOptions::kNode, .keep_gradients = true, .unit_bytes = 0},
                        comm);
      if (in_turn) continue;
      expect_near_plain(plain, {.what = what, .group = 2, .keep_gradients = true, .unit_bytes = 0}, comm);
    }
  }
}

/// Groups of one rank hold everything; a group of all ranks has no replica.
TEST(ShardGroups, HaveAnySizeThatDivides) {
  const std::vector<at::Tensor> plain = train({}, world());
  for (const int group : {1, world()->size()}) {
    const std::vector<at::Tensor> sharded =
        train({.shard = {.what = Shard::kParameters, .group = group, .unit_bytes = 0}}, world());
    for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(torch::allclose(plain[i], sharded[i], 1e-4, 1e-5)) << i;
  }
}

TEST(ShardGroups, UnevenOnesAreRejected_from_2_ranks) {
  const int size = world()->size();
  EXPECT_THAT([&] { train({.shard = {.what = Shard::kOptimizer, .group = size + 1}}, world()); },
              ThrowsMessage<UsageError>(HasSubstr("cannot be divided into groups of " + std::to_string(size + 1))));
  if (size != 3) return;
  EXPECT_THAT([] { train({.shard = {.what = Shard::kOptimizer, .group = ShardOptions::kNode}}, on_nodes(2)); },
              ThrowsMessage<UsageError>(HasSubstr("--shard-group node")));
}

/// Replicas of a piece stay equal; the ranks of all groups throw if some piece differs.
TEST(ShardGroups, ReplicasAreCompared_on_4_ranks) {
  const auto change = [](MultiNodeOptimizer& optimizer, ShardedNet& net) {
    const at::Tensor last = net.table->weight;
    if (world()->rank() == 3) find_piece(last)->elements.data_ptr<float>()[0] += 1;
    const auto step = [&] {
      optimizer.zero_grad();
      optimizer.scale_loss(net.forward(torch::zeros({1, 3}, at::kLong)), 3).backward();
      optimizer.step(3);
    };
    EXPECT_THAT(step, ThrowsMessage<DataError>(HasSubstr("table.weight on rank 3")));
  };
  for (const Shard what : kAllShards) {
    static_cast<void>(
        train({.shard = {.what = what, .group = 2, .unit_bytes = 0}, .check = 1, .look = change}, world()));
  }
}

ToyJob job(const TrainerOptions& trainer, const ShardOptions& shard) {
  return {world(), {.fused = true, .trainer = trainer, .optimizer = {.shard = shard}}};
}

/// Each piece is written once.
TEST(ShardGroups, CheckpointsAreOfOneGroup_on_4_ranks) {
  const toy::TestFolder folder(world());
  const std::string path = (folder.path() / "three").string();
  const ShardOptions pairs = {.what = Shard::kGradients, .group = 2};
  ToyJob whole = job({.iterations = 6, .out = folder.path()}, pairs);
  EXPECT_EQ(whole.trainer->run(), 0);
  ToyJob first = job({.iterations = 3, .out = folder.path()}, pairs);
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(path);
  for (const ShardOptions& shard : {pairs, ShardOptions{.what = Shard::kOptimizer}, ShardOptions{}}) {
    ToyJob second = job({.iterations = 6, .out = folder.path()}, shard);
    EXPECT_TRUE(second.trainer->resume(path));
    EXPECT_EQ(second.trainer->run(), 0);
    EXPECT_TRUE(torch::allclose(second.weights(), whole.weights(), 1e-5, 1e-6));
  }
}

}  // namespace
}  // namespace mn
