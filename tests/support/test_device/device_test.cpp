// The test device computes what the CPU does, late, in the order of streams, and shows what a GPU would hide.
#include <cmath>
#include <thread>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/tensor/autocast.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/support/cuda_streams.hpp"
#include "tests/support/test_device/host_waits.hpp"
#include "tests/support/test_device/memory.hpp"
#include "tests/support/test_device/streams.hpp"

namespace mn::test_device {
namespace {

using mn::testing::Gate;
using ::testing::Contains;
using ::testing::HasSubstr;

const c10::Device kDevice(kType, 0);

c10::Stream new_stream() { return c10::impl::VirtualGuardImpl(kType).getNewStream(kDevice); }

at::Tensor filled(double value, std::int64_t count = 1000) {
  return torch::full({count}, value, torch::TensorOptions(kDevice));
}

struct ConvolutionNet : torch::nn::Module {
  ConvolutionNet() {
    convolution = register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
    batch_norm = register_module("batch_norm", torch::nn::BatchNorm2d(4));
    layer_norm = register_module("layer_norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
    linear = register_module("linear", torch::nn::Linear(4, 10));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor h = torch::max_pool2d(torch::relu(batch_norm(convolution(x))), 2);
    return linear(layer_norm(h.mean({2, 3})));
  }
  torch::nn::Conv2d convolution{nullptr};
  torch::nn::BatchNorm2d batch_norm{nullptr};
  torch::nn::LayerNorm layer_norm{nullptr};
  torch::nn::Linear linear{nullptr};
};

struct AttentionNet : torch::nn::Module {
  AttentionNet() {
    embedding = register_module("embedding", torch::nn::Embedding(30, 16));
    heads = register_module("heads", torch::nn::Linear(16, 48));
    out = register_module("out", torch::nn::Linear(16, 30));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor h = heads(embedding(x)).view({x.size(0), x.size(1), 3, 2, 8}).permute({2, 0, 3, 1, 4});
    const at::Tensor mixed = at::scaled_dot_product_attention(h[0], h[1], h[2], {}, 0.0, true);
    return out(torch::gelu(mixed.transpose(1, 2).reshape({x.size(0), x.size(1), 16}))).flatten(0, 1);
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear heads{nullptr}, out{nullptr};
};

/// Losses of five steps with AdamW, which makes noise of gradients that are 0; `waits` counts those of the steps.
template <class Model>
at::Tensor trained(c10::Device device, at::Tensor x, at::Tensor target, std::int64_t* waits = nullptr) {
  torch::manual_seed(1);
  auto model = std::make_shared<Model>();
  model->to(device);
  x = x.to(device);
  target = target.to(device);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
  std::vector<at::Tensor> all;
  const HostWaits meter;
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = torch::nn::functional::cross_entropy(model->forward(x), target);
    loss.backward();
    optimizer.step();
    all.push_back(loss.detach().reshape({1}));
  }
  if (waits != nullptr) *waits = meter.count();
  return torch::cat(all).cpu();
}

template <class Model>
void expect_as_on_cpu(const at::Tensor& x, const at::Tensor& target) {
  std::int64_t waits = -1;
  const at::Tensor here = trained<Model>(kDevice, x, target, &waits);
  EXPECT_TRUE(torch::allclose(here, trained<Model>(c10::kCPU, x, target), 1e-4, 1e-5));
  EXPECT_EQ(waits, 0);  // so libtorch's own step waits for nothing
}

TEST(TestDevice, TrainsAConvolutionalNetworkAsTheCpuDoes) {
  expect_as_on_cpu<ConvolutionNet>(torch::randn({8, 1, 8, 8}), torch::randint(10, {8}));
}

TEST(TestDevice, TrainsAttentionAsTheCpuDoes) {
  expect_as_on_cpu<AttentionNet>(torch::randint(30, {4, 6}), torch::randint(30, {24}));
}

at::Tensor read_on_host(const at::Tensor& tensor) { return tensor.cpu(); }

TEST(TestDevice, CountsWhatTheHostWaitsFor) {
  const at::Tensor ones = filled(1);
  const HostWaits meter;
  const at::Tensor sum = (ones * 2 + 1).sum();
  EXPECT_EQ(meter.count(), 0);
  EXPECT_EQ(sum.item<double>(), 3000);
  EXPECT_EQ(meter.count(), 1);
  EXPECT_EQ(ones.nonzero().size(0), 1000);
  EXPECT_EQ(meter.count(), 2);
  EXPECT_EQ(read_on_host(ones)[7].item<double>(), 1);
  EXPECT_EQ(meter.count(), 3);
  EXPECT_EQ(torch::ones({3}).to(kDevice).size(0), 3);
  EXPECT_EQ(meter.count(), 4);
  EXPECT_THAT(meter.table(1), HasSubstr("cudaMemcpyAsync of pageable memory < mn::run_job"));
}

TEST(TestDevice, StreamsAreNotOrderedWithoutAnEvent) {
  const c10::Stream writer = new_stream(), reader = new_stream();
  const at::Tensor cell = filled(1);
  c10::impl::VirtualGuardImpl(kType).synchronizeDevice(0);
  Gate gate(handle_of(writer));
  c10::Event written(kType);
  {
    const c10::StreamGuard guard(writer);
    cell.fill_(2);
    written.record(writer);
  }
  const c10::StreamGuard guard(reader);
  EXPECT_EQ(cell[0].item<double>(), 1);  // the writer is held
  written.block(reader);
  const at::Tensor late = cell[0] * 1;
  gate.open();
  EXPECT_EQ(late.item<double>(), 2);
}

/// What a stream that is held reads from memory that was freed meanwhile.
double read_after_free(bool recorded) {
  const c10::Stream side = new_stream();
  at::Tensor cell = filled(1);
  c10::impl::VirtualGuardImpl(kType).synchronizeDevice(0);
  Gate gate(handle_of(side));
  at::Tensor copy;
  {
    const c10::StreamGuard guard(side);
    copy = cell * 1;
  }
  if (recorded) cell.record_stream(side);
  cell.reset();
  const at::Tensor next = filled(5);
  c10::impl::VirtualGuardImpl(kType).synchronizeStream(current_stream(kDevice));
  gate.open();
  const c10::StreamGuard guard(side);
  return copy[0].item<double>();
}

TEST(TestDevice, FreedMemoryIsTakenAgainUnlessTheStreamIsRecorded) {
  EXPECT_EQ(read_after_free(true), 1);
  EXPECT_NE(read_after_free(false), 1);
}

/// What arrives of a host tensor that is written right after the copy.
double copied(bool pinned, bool non_blocking) {
  const c10::Stream side = new_stream();
  const c10::StreamGuard guard(side);
  const at::Tensor host = torch::ones({1000}, torch::TensorOptions().pinned_memory(pinned));
  EXPECT_EQ(host.is_pinned(), pinned);
  Gate gate(handle_of(side));
  if (!non_blocking) gate.open();
  const at::Tensor there = host.to(kDevice, non_blocking);
  host.fill_(2);
  if (non_blocking) gate.open();
  return there[0].item<double>();
}

TEST(TestDevice, PageLockedMemoryIsCopiedLate) {
  EXPECT_EQ(copied(true, true), 2);
  EXPECT_EQ(copied(true, false), 1);
  EXPECT_EQ(copied(false, true), 1);
}

TEST(TestDevice, PageLockedMemoryIsNotTakenAgainBeforeItsCopy) {
  const c10::Stream side = new_stream();
  const c10::StreamGuard guard(side);
  const auto options = torch::TensorOptions().pinned_memory(true);
  at::Tensor host = torch::ones({1000}, options);
  Gate gate(handle_of(side));
  const at::Tensor there = host.to(kDevice, true);
  host.reset();
  const at::Tensor next = torch::full({1000}, 3, options);
  gate.open();
  EXPECT_EQ(there[0].item<double>(), 1);
}

TEST(TestDevice, EachThreadHasItsCurrentStream) {
  const c10::StreamGuard guard(new_stream());
  const c10::Stream here = current_stream(kDevice);
  c10::Stream there = here;
  std::thread([&] { there = current_stream(kDevice); }).join();
  EXPECT_NE(here, there);
  EXPECT_EQ(current_stream({kType, 1}).id(), 0);
  EXPECT_EQ(mn::current_stream({DeviceType::kCuda, 0}), here);
}

TEST(TestDevice, RandomNumbersFollowTheOrderOfCalls) {
  const Device device{DeviceType::kCuda, 0};
  const auto draw = [&] {
    seed_random(3, device);
    const at::Tensor first = torch::dropout(filled(1), 0.5, true);
    const at::Tensor second = torch::randn({1000}, torch::TensorOptions(kDevice));
    return torch::stack({first, second}).cpu();
  };
  const at::Tensor numbers = draw();
  EXPECT_TRUE(torch::equal(numbers, draw()));
  EXPECT_NEAR(numbers[0].mean().item<double>(), 1, 0.2);
  EXPECT_NEAR(numbers[1].std().item<double>(), 1, 0.2);
}

TEST(TestDevice, AutocastComputesIn16Bits) {
  const at::Tensor x = filled(1, 4).view({2, 2});
  const AutocastScope scope(at::kBFloat16, {DeviceType::kCuda, 0});
  EXPECT_EQ(x.mm(x).scalar_type(), at::kBFloat16);
  EXPECT_EQ(torch::softmax(x.mm(x), 0).scalar_type(), at::kFloat);
}

TEST(TestDevice, CountsBytes) {
  reset_peak_bytes();
  const std::size_t before = bytes_in_use();
  at::Tensor tensor = filled(1, 1024);
  EXPECT_EQ(bytes_in_use(), before + 4096);
  tensor.reset();
  EXPECT_EQ(bytes_in_use(), before);
  EXPECT_EQ(peak_bytes(), before + 4096);
}

TEST(TestDevice, RejectsTensorsOfTwoDevices) {
  EXPECT_THROW(filled(1).add(torch::ones({1000})), c10::Error);
  EXPECT_THROW(static_cast<void>(buffer_view(torch::ones({2}, torch::TensorOptions(c10::kMeta)))), std::exception);
}

TEST(TestDevice, ViewsAndGrownMemoryKeepValues) {
  const at::Tensor matrix = torch::arange(12, torch::TensorOptions(kDevice)).view({3, 4});
  EXPECT_TRUE(torch::equal(matrix.t().slice(0, 1, 3).cpu(), torch::arange(12).view({3, 4}).t().slice(0, 1, 3)));
  EXPECT_TRUE(torch::equal(matrix.unfold(1, 2, 2).cpu(), torch::arange(12).view({3, 4}).unfold(1, 2, 2)));
  at::Tensor grown = filled(4, 3);
  grown.resize_({1000});
  EXPECT_TRUE(torch::equal(grown.narrow(0, 0, 3).cpu(), torch::full({3}, 4.0)));
  EXPECT_TRUE(grown[999].isnan().item<bool>());
}

}  // namespace
}  // namespace mn::test_device
