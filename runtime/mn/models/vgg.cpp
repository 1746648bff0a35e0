#include <mn/models/models.hpp>

#include <array>

#include <torch/torch.h>

namespace mn::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kPool = 0;
/// A number is a convolution with this number of channels; kPool is a pooling.
constexpr std::array<std::int64_t, 18> kLayers = {64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                                                  kPool, 512, 512,   512, kPool, 512,   512, 512, kPool};

class Vgg final : public Classifier {
 public:
  explicit Vgg(std::int64_t num_classes) {
    std::int64_t channels = 3;
    for (const std::int64_t layer : kLayers) {
      if (layer == kPool) {
        features_->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(2)));
        continue;
      }
      nn::Conv2d convolution(nn::Conv2dOptions(channels, layer, 3).padding(1));
      nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
      nn::init::zeros_(convolution->bias);
      features_->push_back(convolution);
      features_->push_back(nn::BatchNorm2d(layer));
      features_->push_back(nn::ReLU(nn::ReLUOptions(true)));
      channels = layer;
    }
    register_module("features", features_);
    classifier_ = register_module("classifier", nn::Linear(channels, num_classes));
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    return classifier_(torch::adaptive_avg_pool2d(features_->forward(images), {1, 1}).flatten(1));
  }

 private:
  nn::Sequential features_;
  nn::Linear classifier_ = nullptr;
};

}  // namespace

std::shared_ptr<Classifier> create_small_vgg16(std::int64_t num_classes) { return std::make_shared<Vgg>(num_classes); }

}  // namespace mn::models
