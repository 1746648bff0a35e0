/// Networks from images to classes.
#pragma once

#include <vector>

#include <torch/nn/module.h>

namespace mn::models {

/// Parameters and buffers carry torchvision's names where torchvision has the network.
class Classifier : public torch::nn::Module {
 public:
  /// (N, 3, H, W) → (N, classes): logits.
  [[nodiscard]] virtual torch::Tensor forward(const torch::Tensor& images) = 0;

  /// The same, followed in training mode by the logits of auxiliary classifiers where the network has some.
  [[nodiscard]] virtual std::vector<torch::Tensor> forward_heads(const torch::Tensor& images) {
    return {forward(images)};
  }
};

/// What an auxiliary classifier's loss counts beside the main one's 1 (Szegedy et al. 2014, arXiv:1409.4842).
inline constexpr double kAuxiliaryWeight = 0.3;

}  // namespace mn::models
