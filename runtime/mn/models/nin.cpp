#include <mn/models/models.hpp>

#include <torch/torch.h>

namespace mn::models {
namespace {

namespace nn = torch::nn;

/// A convolution and two 1×1 convolutions, each with a ReLU: a small perceptron that slides over the image.
nn::Sequential mlpconv(const nn::Conv2dOptions& first, std::int64_t second, std::int64_t third) {
  const auto relu = [] { return nn::ReLU(nn::ReLUOptions(true)); };
  return nn::Sequential(nn::Conv2d(first), relu(),                                               //
                        nn::Conv2d(nn::Conv2dOptions(first.out_channels(), second, 1)), relu(),  //
                        nn::Conv2d(nn::Conv2dOptions(second, third, 1)), relu());
}

torch::Tensor pool(const torch::Tensor& x) {
  return torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/0, /*dilation=*/1, /*ceil_mode=*/true);
}

class NetworkInNetwork : public Classifier {
 public:
  explicit NetworkInNetwork(std::int64_t num_classes)
      : mlpconv1_(register_module("mlpconv1", mlpconv(nn::Conv2dOptions(3, 96, 11).stride(4), 96, 96))),
        mlpconv2_(register_module("mlpconv2", mlpconv(nn::Conv2dOptions(96, 256, 5).padding(2), 256, 256))),
        mlpconv3_(register_module("mlpconv3", mlpconv(nn::Conv2dOptions(256, 384, 3).padding(1), 384, 384))),
        mlpconv4_(register_module("mlpconv4", mlpconv(nn::Conv2dOptions(384, 1024, 3).padding(1), 1024, num_classes))) {
    for (const auto& module : modules(/*include_self=*/false)) {
      auto* convolution = module->as<nn::Conv2d>();
      if (convolution == nullptr) continue;
      nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanIn, torch::kReLU);
      nn::init::zeros_(convolution->bias);
    }
    nn::init::normal_(mlpconv4_[4]->as<nn::Conv2d>()->weight, 0, 0.01);  // makes the class scores
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = pool(mlpconv1_->forward(images));  // (N, 96, 27, 27) at 224
    x = pool(mlpconv2_->forward(x));                     // (N, 256, 13, 13)
    x = pool(mlpconv3_->forward(x));                     // (N, 384, 6, 6)
    x = mlpconv4_->forward(torch::dropout(x, 0.5, is_training()));
    return torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
  }

 private:
  nn::Sequential mlpconv1_, mlpconv2_, mlpconv3_, mlpconv4_;
};

}  // namespace

std::shared_ptr<Classifier> create_nin(std::int64_t num_classes) {
  return std::make_shared<NetworkInNetwork>(num_classes);
}

}  // namespace mn::models
