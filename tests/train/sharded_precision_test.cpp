// Sharded parameters of 16 bits with float32 masters.
#include <gtest/gtest.h>

#include <mn/sharding/pieces.hpp>

#include "tests/train/sharded_net.hpp"

namespace mn {
namespace {

using test::kAllShards;
using test::ShardedNet;
using test::ShardedTraining;
using test::train;

/// Expects that the parameters are equal bits with and without sharding.
void expect_equal(ShardedTraining how) {
  const std::shared_ptr<Communicator> comm = create_communicator("auto");
  const std::vector<at::Tensor> plain = train(how, comm);
  for (const Shard what : kAllShards) {
    how.shard = {.what = what, .keep_gradients = true, .unit_bytes = 0};
    const std::vector<at::Tensor> sharded = train(how, comm);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(torch::equal(plain[i], sharded[i])) << "parameter " << i << " with shard " << static_cast<int>(what);
    }
  }
}

TEST(ShardedPrecision, EqualsPlainWithNarrowWeights) { expect_equal({.narrow = true}); }
TEST(ShardedPrecision, EqualsPlainWithNarrowWeightsAndAccumulation) { expect_equal({.narrow = true, .backwards = 2}); }
TEST(ShardedPrecision, EqualsPlainWithAutocast) { expect_equal({.autocast = true}); }

TEST(ShardedPrecision, EqualsPlainIfAnOperatorUsesTwoBlocks) {
  const auto of_two = [](ShardedNet& net) {
    const auto weight = [&](std::size_t block) {
      return net.blocks[block]->as<torch::nn::SequentialImpl>()->ptr(1)->named_parameters()["weight"];
    };
    return torch::stack({weight(0), weight(2)}).square().sum();
  };
  expect_equal({.extra = of_two});
  expect_equal({.autocast = true, .extra = of_two});
}

TEST(ShardedPrecision, MastersAreOfPiecesAlone) {
  const auto look = [](MultiNodeOptimizer& optimizer, ShardedNet& net) {
    for (const at::Tensor& parameter : net.parameters()) {
      const at::Tensor piece = find_piece(parameter)->elements;
      if (parameter.scalar_type() != at::kBFloat16 || piece.numel() == 0) continue;
      const at::Tensor master = dynamic_cast<MasterWeights&>(optimizer.actual()).master(piece);
      EXPECT_EQ(master.scalar_type(), at::kFloat);
      EXPECT_EQ(master.sizes(), piece.sizes());
      EXPECT_TRUE(torch::equal(master.to(at::kBFloat16), piece));
    }
  };
  for (const Shard what : kAllShards) {
    const ShardedTraining how = {.shard = {.what = what, .unit_bytes = 0}, .narrow = true, .look = look};
    static_cast<void>(train(how, create_communicator("auto")));
  }
}

}  // namespace
}  // namespace mn
