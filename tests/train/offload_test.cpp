// Activations in the host's memory, on the test device, whose work is late: equal bits, and less memory of the device.
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/error.hpp>
#include <mn/nn/offloaded_activations.hpp>
#include <mn/nn/recompute.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/autocast.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/support/test_device/streams.hpp"
#include "tests/support/test_device/test_device.hpp"

namespace mn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t kRows = 4096, kWidth = 64;  // an activation has 1 MiB
constexpr std::size_t kActivation = 1 << 20;
constexpr int kBlocks = 6;

std::shared_ptr<Communicator> on_device() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return create_communicator("pure_nccl", MPI_COMM_WORLD,
                             {.device = Device{DeviceType::kCuda, rank % cuda_device_count()}});
}

/// Residual blocks; forward may recompute every other block.
struct Net : torch::nn::Module {
  explicit Net(c10::Device device) {
    torch::manual_seed(3);
    for (int i = 0; i < kBlocks; ++i) {
      blocks->push_back(torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})),
                                              torch::nn::Linear(kWidth, kWidth), torch::nn::GELU(),
                                              torch::nn::Linear(kWidth, kWidth)));
    }
    register_module("blocks", blocks);
    to(device);
  }
  at::Tensor forward(at::Tensor x, bool recompute = false) {
    for (std::size_t i = 0; i < blocks->size(); ++i) {
      const auto block = [module = blocks->ptr<torch::nn::SequentialImpl>(i)](const at::Tensor& in) {
        return torch::sigmoid(in + module->forward(in));
      };
      x = recompute && i % 2 == 0 ? recompute_activations(block, x) : block(x);
    }
    return x.square().mean();
  }
  torch::nn::ModuleList blocks;
};

/// Comes first, because the first object installs the engine.
TEST(Offload, CannotBeginInABackward) {
  static bool is_first = true;
  const auto comm = on_device();
  const Net net(comm->device());
  const at::Tensor x = torch::ones({2}, c10::Device(comm->device())).requires_grad_(), y = x * 2;
  std::string text;
  y.register_hook([&](const at::Tensor& gradient) {
    try {
      const OffloadedActivations offloaded(net, comm->device());
    } catch (const UsageError& error) {
      text = error.what();
    }
    return gradient;
  });
  y.sum().backward();  // in threads of libtorch's own engine, which the next test replaces
  if (std::exchange(is_first, false)) {
    EXPECT_THAT(text, HasSubstr("cannot be made in a backward"));
  }
}

struct Case {
  Shard shard = Shard::kNone;
  bool recompute = false, autocast = false, offloads_optimizer = false;
  int accumulate = 1;
  bool all_forwards_first = false;  // of the minibatches of a step
};

/// Returns the parameters after some steps.
std::vector<at::Tensor> train(const Case& how, bool offload) {
  const std::shared_ptr<Communicator> comm = on_device();
  const c10::Device device(comm->device());
  Net net(device);
  name_tensors(net);
  const auto optimizer = create_multi_node_optimizer(
      std::make_unique<FusedAdamW>(net.parameters(), torch::optim::AdamWOptions(0.01)), comm,
      {.shard = {.what = how.shard, .offload = how.offloads_optimizer, .keep_gradients = true}});
  for (int step = 0; step < 2; ++step) {
    optimizer->zero_grad();
    std::vector<at::Tensor> losses;
    for (int part = 1; part <= how.accumulate; ++part) {
      const auto token = part < how.accumulate ? optimizer->no_sync() : nullptr;
      const at::Tensor x =
          torch::sin(torch::arange(kRows * kWidth).reshape({kRows, kWidth}) * (step + 7 * part) + comm->rank());
      {
        const AutocastScope autocast(how.autocast ? std::optional(at::kBFloat16) : std::nullopt, comm->device());
        const OffloadedActivations offloaded(net, offload ? comm->device() : Device());
        losses.push_back(optimizer->scale_loss(net.forward(x.to(device), how.recompute), 1, how.accumulate));
        EXPECT_EQ(offloaded.bytes_moved() > kBlocks * kActivation / 2, offload);
      }
      if (how.all_forwards_first && part < how.accumulate) continue;
      if (part == how.accumulate) optimizer->announce_step(how.accumulate);
      for (at::Tensor& loss : losses) loss.backward();
      losses.clear();
    }
    optimizer->step(how.accumulate);
  }
  std::vector<at::Tensor> result;
  const WholeParameters whole(net);
  for (const at::Tensor& parameter : net.parameters()) result.push_back(parameter.detach().cpu().clone());
  return result;
}

void expect_equal(const Case& how) {
  const std::vector<at::Tensor> plain = train(how, false), offloaded = train(how, true);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(torch::equal(plain[i], offloaded[i])) << i;
}

TEST(Offload, EqualsPlainWithRecompute) { expect_equal({.recompute = true}); }
TEST(Offload, EqualsPlainWithAccumulationOfShards) { expect_equal({.shard = Shard::kParameters, .accumulate = 2}); }
TEST(Offload, EqualsPlainWithAutocastIfBackwardsFollowAllForwards) {
  expect_equal({.autocast = true, .accumulate = 2, .all_forwards_first = true});
}
TEST(Offload, EqualsPlainWithShardsOnTheHostAndRecompute) {
  expect_equal({.shard = Shard::kParameters, .recompute = true, .offloads_optimizer = true});
}

class OffloadMemory : public ::testing::Test {
 protected:
  /// No work of the device may outlive the process.
  ~OffloadMemory() override { synchronize(); }
  void synchronize() const { c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index()); }
  [[nodiscard]] at::Tensor activation() const { return torch::ones({kRows, kWidth}, device_).requires_grad_(); }
  /// Bytes that `forward` moves.
  [[nodiscard]] std::uint64_t moved(const std::function<at::Tensor()>& forward) const {
    const OffloadedActivations offloaded(*net_, comm_->device());
    forward().sum().backward();
    return offloaded.bytes_moved();
  }
  /// The peak of a forward and a backward.
  [[nodiscard]] std::size_t peak(bool offload) const {
    const at::Tensor x = activation();
    const std::size_t before = test_device::memory_use().bytes;
    test_device::reset_peak();
    at::Tensor loss;
    {
      const OffloadedActivations offloaded(*net_, offload ? comm_->device() : Device());
      loss = net_->forward(x);
    }
    loss.backward();
    return test_device::memory_use().peak_bytes - before;
  }

  std::shared_ptr<Communicator> comm_ = on_device();
  c10::Device device_{comm_->device()};
  std::shared_ptr<Net> net_ = std::make_shared<Net>(device_);
};

/// Plain training keeps five activations of each block. Offloaded are all but those that are on their way.
TEST_F(OffloadMemory, PeakIsOfActivationsOnTheirWay) {
  static_cast<void>(peak(true));  // gradients stay
  EXPECT_GT(peak(false), 4 * kBlocks * kActivation);
  EXPECT_LT(peak(true), 13 * kActivation);
}

TEST_F(OffloadMemory, FourStoragesComeBackBeforeTheirUse) {
  const std::size_t before = test_device::memory_use().bytes;
  std::size_t in_backward = 0;
  at::Tensor y = activation();
  {
    const OffloadedActivations offloaded(*net_, comm_->device());
    for (int i = 0; i < 12; ++i) {
      y = y.sin().exp();  // saves the input of sin() and the result of exp()
      if (i == 4) {
        y.register_hook([&](const at::Tensor& gradient) {
          in_backward = test_device::memory_use().bytes - before;
          return gradient;
        });
      }
    }
    y = y.sum();
  }
  y.backward();
  EXPECT_GE(in_backward, 5 * kActivation);  // and a gradient
  EXPECT_LE(in_backward, 8 * kActivation);
}

/// Nor does it wait when it computes what the device has not begun.
TEST_F(OffloadMemory, HostNeverWaits) {
  static_cast<void>(peak(true));
  static_cast<void>(test_device::take_host_waits());
  static_cast<void>(peak(true));
  auto waits = test_device::take_host_waits();
  std::erase_if(waits, [](const auto& wait) {
    return test_device::describe({wait}).find("run_watch") != std::string::npos;  // the thread that watches NCCL
  });
  EXPECT_TRUE(waits.empty()) << test_device::describe(waits);
}

TEST_F(OffloadMemory, MovesViewsOfAStorageOnce) {
  const at::Tensor x = activation();
  const auto several = [&] {
    const at::Tensor y = x * 2, z = y.view({-1, 512});
    return y.square().sum() + (z.transpose(0, 1) * z.transpose(0, 1)).sum() + y.narrow(0, 7, 512).exp().sum();
  };
  EXPECT_EQ(moved(several), kActivation);
  at::Tensor expected = torch::full({kRows, kWidth}, 16.0);
  expected.narrow(0, 7, 512).add_(2 * std::exp(2.0));
  EXPECT_TRUE(x.grad().cpu().allclose(expected));
}

TEST_F(OffloadMemory, LeavesParametersAndSmallTensors) {
  const at::Tensor large = torch::ones({4096, 4096}, device_).requires_grad_();
  struct Frozen : torch::nn::Module {
    explicit Frozen(const at::Tensor& held) { register_parameter("held", held, false); }
  };
  const at::Tensor frozen = torch::ones({kRows, kWidth}, device_);
  net_->register_module("frozen", std::make_shared<Frozen>(frozen));
  net_->register_parameter("large", large);
  const at::Tensor x = torch::ones({8, 4096}, device_).requires_grad_();
  EXPECT_EQ(moved([&] { return torch::linear(x, large); }), 0);
  EXPECT_EQ(moved([&] { return torch::linear(x.narrow(1, 0, kWidth), frozen).exp(); }), 0);
  const AutocastScope autocast(at::kBFloat16, comm_->device());
  EXPECT_EQ(moved([&] { return torch::linear(x, large); }), 0);
  const at::Tensor wide = torch::ones({8 * kRows, kWidth}, device_).requires_grad_() * 1;
  EXPECT_EQ(moved([&] { return wide.narrow(0, 0, kRows).square(); }), 0);  // an eighth of the storage
}

TEST_F(OffloadMemory, ChangedTensorsAreErrors) {
  const at::Tensor x = activation();
  at::Tensor moved, stays, loss;
  {
    const OffloadedActivations offloaded(*net_, comm_->device());
    moved = x * 2;
    stays = x.narrow(0, 0, 2) * 2;
    loss = moved.square().sum() + stays.square().sum();
  }
  for (at::Tensor* const changed : {&moved, &stays}) {
    at::Tensor of_one;
    {
      const OffloadedActivations offloaded(*net_, comm_->device());
      of_one = changed->square().sum();
    }
    {
      const at::NoGradGuard no_grad;
      changed->add_(1);
    }
    EXPECT_THAT([&] { of_one.backward(); }, ThrowsMessage<UsageError>(HasSubstr("was modified in place")));
  }
}

TEST_F(OffloadMemory, ComesBackForEachBackwardAndOnAnyStream) {
  const at::Tensor x = activation();
  at::Tensor loss;
  const c10::impl::VirtualGuardImpl guard(device_.type());
  guard.synchronizeDevice(device_.index());
  {
    const c10::StreamGuard on_another(guard.getStreamFromGlobalPool(device_));
    const OffloadedActivations offloaded(*net_, comm_->device());
    loss = net_->forward(x * 1);
  }
  loss.backward({}, /*keep_graph=*/true);
  const at::Tensor first = x.grad().cpu();  // waits: the gradient's memory belongs to the other stream
  x.mutable_grad().reset();
  loss.backward();
  EXPECT_TRUE(torch::equal(first, x.grad().cpu()));
}

/// Of memory that one stream allocates and another uses, the allocator must know.
TEST_F(OffloadMemory, ComesBackForTwoStreams) {
  const c10::impl::VirtualGuardImpl guard(device_.type());
  const c10::Stream other = guard.getStreamFromGlobalPool(device_);
  std::vector<at::Tensor> gradients;
  for (const bool offload : {false, true}) {
    const at::Tensor x = torch::linspace(-1, 1, kRows * kWidth).reshape({kRows, kWidth}).to(device_).requires_grad_();
    const at::Tensor y = torch::linspace(-2, 2, kRows * kWidth).reshape({kRows, kWidth}).to(device_).requires_grad_();
    at::Tensor a = x, b = y, c;
    guard.synchronizeDevice(device_.index());
    {
      const OffloadedActivations offloaded(*net_, offload ? comm_->device() : Device());
      for (int i = 0; i < 10; ++i) {
        a = a.sin().exp();
        const c10::StreamGuard on_other(other);
        b = b.sin().exp();
      }
      guard.synchronizeDevice(device_.index());
      c = (a + b).sum();
    }
    a.reset();
    b.reset();
    c.backward();
    gradients.insert(gradients.end(), {x.grad().cpu(), y.grad().cpu()});
  }
  EXPECT_TRUE(torch::equal(gradients[0], gradients[2]));
  EXPECT_TRUE(torch::equal(gradients[1], gradients[3]));
}

/// What is on its way to the device, and is not used, writes no memory that others have by then.
TEST_F(OffloadMemory, GraphsMayEndInMidBackward) {
  {
    at::Tensor y = activation(), before_last;
    const OffloadedActivations offloaded(*net_, comm_->device());
    for (int i = 0; i < 14; ++i) {
      before_last = y.sin();
      y = before_last.exp();
    }
    synchronize();
    for (int i = 0; i < 4; ++i) {  // all streams that libtorch gives to copies
      const c10::Stream copies = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
      test_device::enqueue(copies, "late", [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
    }
    static_cast<void>(torch::autograd::grad({y.sum()}, {before_last}));
  }
  std::vector<at::Tensor> others;
  for (int i = 0; i < 12; ++i) others.push_back(torch::full({kRows, kWidth}, 1.0 * i, device_));
  synchronize();
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(others[static_cast<std::size_t>(i)].eq(i).all().item<bool>());
}

TEST_F(OffloadMemory, UnusedTensorsErrorsAndEvaluationsLeaveNothing) {
  static_cast<void>(peak(true));
  const std::size_t before = test_device::memory_use().bytes;
  const at::Tensor gradient = net_->parameters()[0].grad().clone();
  const auto fail = [&] {
    const OffloadedActivations offloaded(*net_, comm_->device());
    const at::Tensor loss = net_->forward(torch::ones({kRows, kWidth}, device_));
    EXPECT_GT(offloaded.bytes_moved(), kBlocks * kActivation);
    throw std::runtime_error("an error in forward");
  };
  EXPECT_THROW(fail(), std::runtime_error);
  {
    const at::NoGradGuard no_grad;
    const OffloadedActivations offloaded(*net_, comm_->device());
    static_cast<void>(net_->forward(torch::ones({kRows, kWidth}, device_)));
    EXPECT_EQ(offloaded.bytes_moved(), 0);
  }
  EXPECT_EQ(test_device::memory_use().bytes, before + gradient.nbytes());
  net_->zero_grad();
  static_cast<void>(peak(true));
  net_->zero_grad();
  static_cast<void>(peak(false));
}

TEST(OffloadOnCpu, MovesNothing) {
  const Net net(c10::kCPU);
  const OffloadedActivations offloaded(net, Device());
  torch::ones({kRows, kWidth}).requires_grad_().square().sum().backward();
  EXPECT_EQ(offloaded.bytes_moved(), 0);
}

}  // namespace
}  // namespace mn
