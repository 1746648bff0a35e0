// Networks with batch norm over all ranks, and optimizers, for tests on devices. Smooth networks: rounding may turn the
// gradient of a ReLU whose input is close to 0 on or off, and so change a step by 1e-3.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/nn/batch_norm.hpp>

namespace mn::test {

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

template <class Optimizer, class Options>
MakeOptimizer make(const Options& options) {
  return [options](std::vector<at::Tensor> parameters) {
    return std::make_unique<Optimizer>(std::move(parameters), options);
  };
}

struct Model : torch::nn::Module {
  /// `with_last`: the last layer takes part.
  virtual at::Tensor forward(const at::Tensor& x, bool with_last) = 0;
};

/// A convolution, batch norm over all ranks, linear layers. No bias goes into the batch norm: its gradient is nothing
/// but rounding, which Adam makes as large as any.
struct Net : Model {
  explicit Net(const std::shared_ptr<Communicator>& comm) {
    torch::manual_seed(3);
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1).bias(false)));
    norm = register_module("norm", MultiNodeBatchNorm(comm, torch::nn::BatchNormOptions(4)));
    linear = register_module("linear", torch::nn::Linear(4, 5));
    last = register_module("last", torch::nn::Linear(5, 3));
  }
  at::Tensor forward(const at::Tensor& x, bool with_last) override {
    const at::Tensor y = linear(torch::silu(norm(conv(x))).mean({2, 3}));
    return with_last ? last(y) : y;
  }
  torch::nn::Conv2d conv{nullptr};
  MultiNodeBatchNorm norm{nullptr};
  torch::nn::Linear linear{nullptr}, last{nullptr};
};

/// ResNet-18 with an eighth of the channels, and batch norm over all ranks: 20 layers of it, 40 collectives.
struct ResNet18 : Model {
  explicit ResNet18(const std::shared_ptr<Communicator>& comm) {
    torch::manual_seed(3);
    add("stem", comm, 1, 8, 3, 1);
    std::int64_t channels = 8;
    for (const std::int64_t width : {8, 8, 16, 16, 32, 32, 64, 64}) {
      const std::string name = "block" + std::to_string(blocks++);
      const std::int64_t stride = width > channels ? 2 : 1;
      add(name + "a", comm, channels, width, 3, stride);
      add(name + "b", comm, width, width, 3, 1);
      if (width > channels) add(name + "c", comm, channels, width, 1, stride);
      channels = width;
    }
    linear = register_module("linear", torch::nn::Linear(channels, 3));
  }
  void add(const std::string& name, const std::shared_ptr<Communicator>& comm, std::int64_t in, std::int64_t out,
           std::int64_t size, std::int64_t stride) {
    const auto options = torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false);
    convs.emplace(name, register_module(name + "conv", torch::nn::Conv2d(options)));
    norms.emplace(name, register_module(name + "norm", MultiNodeBatchNorm(comm, torch::nn::BatchNormOptions(out))));
  }
  at::Tensor layer(const std::string& name, const at::Tensor& x) { return norms.at(name)(convs.at(name)(x)); }
  at::Tensor forward(const at::Tensor& x, bool /*with_last*/) override {
    at::Tensor y = torch::silu(layer("stem", x));
    for (int k = 0; k < blocks; ++k) {
      const std::string name = "block" + std::to_string(k);
      const at::Tensor around = convs.contains(name + "c") ? layer(name + "c", y) : y;
      y = torch::silu(layer(name + "b", torch::silu(layer(name + "a", y))) + around);
    }
    return linear(y.mean({2, 3}));
  }
  std::map<std::string, torch::nn::Conv2d> convs;
  std::map<std::string, MultiNodeBatchNorm> norms;
  torch::nn::Linear linear{nullptr};
  int blocks = 0;
};

}  // namespace mn::test
