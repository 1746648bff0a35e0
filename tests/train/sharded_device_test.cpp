// Sharded trainings on a device: plain training's parameters, whatever order the device's work takes.
#include <gtest/gtest.h>

#include "tests/train/device_comm.hpp"
#include "tests/train/sharded_net.hpp"

namespace mn {
namespace {

using test::comm;
using test::kAllShards;
using test::ShardedTraining;
using test::train;

void expect_equal(ShardedTraining how) {
  const std::vector<at::Tensor> plain = train(how, comm());
  for (const Shard what : kAllShards) {
    how.shard = {.what = what, .keep_gradients = true, .unit_bytes = 0};
    const std::vector<at::Tensor> sharded = train(how, comm());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(test::are_alike(plain[i], sharded[i]))
          << "parameter " << i << " with shard " << static_cast<int>(what) << ": "
          << (plain[i] - sharded[i]).abs().max().item<float>();
    }
  }
}

TEST(ShardedOnDevice, EqualsPlain) { expect_equal({}); }
TEST(ShardedOnDevice, EqualsPlainWithAccumulation) { expect_equal({.backwards = 2, .announces = false}); }

}  // namespace
}  // namespace mn
