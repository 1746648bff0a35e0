/// Networks from images to classes.
#pragma once

#include <vector>

#include <torch/nn/module.h>

namespace mn::models {

/// A network whose parameters and buffers have torchvision's names, if torchvision has the network.
class Classifier : public torch::nn::Module {
 public:
  /// (N, 3, H, W) → (N, classes): logits.
  [[nodiscard]] virtual torch::Tensor forward(const torch::Tensor& images) = 0;

  /// The logits of forward(), in training mode followed by the logits of the network's auxiliary classifiers, if any.
  [[nodiscard]] virtual std::vector<torch::Tensor> forward_heads(const torch::Tensor& images) {
    return {forward(images)};
  }
};

/// Weight of an auxiliary classifier's loss; the main loss has weight 1 (Szegedy et al. 2014, arXiv:1409.4842).
inline constexpr double kAuxiliaryWeight = 0.3;

}  // namespace mn::models
