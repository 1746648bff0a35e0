/// The multilayer perceptron of ChainerMN's MNIST example.
#pragma once

#include <cstdint>

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace mn::jobs {

/// 784 → unit → unit → 10 with ReLU between; layers l1, l2, l3.
class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(std::int64_t unit);
  /// (N, 28, 28) or (N, 784) → (N, 10): logits.
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Linear l1_, l2_, l3_;
};
TORCH_MODULE(Mlp);

}  // namespace mn::jobs
