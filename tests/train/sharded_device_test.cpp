// Sharded trainings on a device: plain training's parameters, whatever order the device's work takes.
#include <chrono>
#include <thread>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <mn/sharding/pieces.hpp>

#include "tests/support/test_device/streams.hpp"
#include "tests/train/device_comm.hpp"
#include "tests/train/sharded_net.hpp"

namespace mn {
namespace {

using test::comm;
using test::kAllShards;
using test::ShardedTraining;
using test::train;

void expect_equal(ShardedTraining how, int group = ShardOptions::kAllRanks) {
  const std::vector<at::Tensor> plain = train(how, comm());
  for (const Shard what : kAllShards) {
    how.shard = {.what = what, .group = group, .keep_gradients = true, .unit_bytes = 0};
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
TEST(ShardedOnDevice, EqualsPlainWithReplicas_on_4_ranks) { expect_equal({}, /*group=*/2); }

/// A pass that ends early has begun the gather of the next block, whose values are old after a write to the pieces.
TEST(ShardedOnDevice, GathersAgainAfterAWrite) {
  const auto look = [](MultiNodeOptimizer& /*optimizer*/, test::ShardedNet& net) {
    const at::NoGradGuard no_grad;
    const at::Tensor first = net.blocks[0]->named_parameters()["1.weight"];
    const at::Tensor second = net.blocks[2]->named_parameters()["1.weight"];
    for (const bool ends_early : {false, true}) {
      const ShardPass pass(net);
      static_cast<void>(first.sum());
      if (!ends_early) static_cast<void>(second.sum());
    }
    c10::impl::VirtualGuardImpl(first.device().type()).synchronizeDevice(first.device().index());
    load_piece(second, torch::full(second.sizes(), 2.0));
    const ShardPass pass(net);
    EXPECT_TRUE(second.eq(2).all().item<bool>());
  };
  static_cast<void>(train({.shard = {.what = Shard::kParameters, .unit_bytes = 0}, .steps = 1, .look = look}, comm()));
}

/// The other stream waits for the gather, which is late. The memory is not given to the next gather before the other
/// stream's late work ends.
TEST(ShardedOnDevice, UnitsServeAnotherStream) {
  const c10::Device device(comm()->device());
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream own = guard.getStream(device), other = guard.getStreamFromGlobalPool(device);
  const auto delay = [](const c10::Stream& stream, int milliseconds) {
    test_device::enqueue(stream, "late", [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
  };
  const auto look = [&](MultiNodeOptimizer& /*optimizer*/, test::ShardedNet& net) {
    const at::NoGradGuard no_grad;
    const auto weight = [&](std::size_t block) { return net.blocks[block]->named_parameters()["1.weight"]; };
    std::vector<at::Tensor> sums;
    for (const int late_ms : {300, 0}) {
      const ShardPass pass(net);
      guard.synchronizeDevice(device.index());
      for (std::size_t block = 0; block < net.blocks->size(); ++block) {
        delay(own, 100);
        static_cast<void>(weight(block).sum());
        const c10::StreamGuard on_other(other);
        delay(other, late_ms);
        sums.push_back(weight(block).sum());
      }
    }
    guard.synchronizeDevice(device.index());
    const WholeParameters whole(net);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_TRUE(torch::equal(sums[i].cpu(), weight(i % net.blocks->size()).sum().cpu())) << "sum " << i;
    }
  };
  static_cast<void>(train({.shard = {.what = Shard::kParameters, .unit_bytes = 0}, .steps = 1, .look = look}, comm()));
}

}  // namespace
}  // namespace mn
