#include <mn/models/resnet.hpp>

#include <array>
#include <string>

#include <torch/torch.h>

namespace mn::models {
namespace {

namespace nn = torch::nn;

nn::Conv2d biasless_convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// The shortcut of a block that changes the shape: 0 is the convolution, 1 the normalization.
nn::Sequential projection(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return nn::Sequential(biasless_convolution(in, out, 1, stride), nn::BatchNorm2d(out));
}

/// Two 3×3 convolutions.
class BasicBlock : public nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1_(register_module("conv1", biasless_convolution(in, width, 3, stride))),
        bn1_(register_module("bn1", nn::BatchNorm2d(width))),
        conv2_(register_module("conv2", biasless_convolution(width, width, 3, 1))),
        bn2_(register_module("bn2", nn::BatchNorm2d(width))) {
    if (stride != 1 || in != width) downsample_ = register_module("downsample", projection(in, width, stride));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = bn1_(conv1_(x)).relu_();
    y = bn2_(conv2_(y));
    y += downsample_.is_empty() ? x : downsample_->forward(x);
    return y.relu_();
  }

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
  nn::Sequential downsample_ = nullptr;
};

/// Convolutions 1×1 to fewer channels, 3×3, and 1×1 to four times the channels.
class Bottleneck : public nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1_(register_module("conv1", biasless_convolution(in, width, 1, 1))),
        bn1_(register_module("bn1", nn::BatchNorm2d(width))),
        conv2_(register_module("conv2", biasless_convolution(width, width, 3, stride))),
        bn2_(register_module("bn2", nn::BatchNorm2d(width))),
        conv3_(register_module("conv3", biasless_convolution(width, kExpansion * width, 1, 1))),
        bn3_(register_module("bn3", nn::BatchNorm2d(kExpansion * width))) {
    if (stride != 1 || in != kExpansion * width) {
      downsample_ = register_module("downsample", projection(in, kExpansion * width, stride));
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = bn1_(conv1_(x)).relu_();
    y = bn2_(conv2_(y)).relu_();
    y = bn3_(conv3_(y));
    y += downsample_.is_empty() ? x : downsample_->forward(x);
    return y.relu_();
  }

 private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  nn::Conv2d conv2_;
  nn::BatchNorm2d bn2_;
  nn::Conv2d conv3_;
  nn::BatchNorm2d bn3_;
  nn::Sequential downsample_ = nullptr;
};

/// The layers before the blocks. kLarge shrinks each side of an image to a quarter; kSmall keeps the sides of small
/// images.
enum class Stem : std::uint8_t { kLarge, kSmall };

template <class Block>
class ResNet : public Classifier {
 public:
  ResNet(const std::array<std::int64_t, 4>& blocks, std::int64_t num_classes, Stem stem = Stem::kLarge)
      : stem_(stem),
        conv1_(register_module(
            "conv1", stem == Stem::kLarge ? biasless_convolution(3, 64, 7, 2) : biasless_convolution(3, 64, 3, 1))),
        bn1_(register_module("bn1", nn::BatchNorm2d(64))) {
    std::int64_t channels = 64;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::int64_t width = std::int64_t{64} << i;
      for (std::int64_t block = 0; block < blocks[i]; ++block) {
        layers_[i]->push_back(std::make_shared<Block>(channels, width, i > 0 && block == 0 ? 2 : 1));
        channels = width * Block::kExpansion;
      }
      register_module("layer" + std::to_string(i + 1), layers_[i]);
    }
    fc_ = register_module("fc", nn::Linear(channels, num_classes));
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* convolution = module->as<nn::Conv2d>()) {
        nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = bn1_(conv1_(images)).relu_();  // (N, 64, H/2, W/2), small: (N, 64, H, W)
    if (stem_ == Stem::kLarge) x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    for (auto& layer : layers_) x = layer->forward(x);  // channels 64·2^i·expansion, each side 2^i times smaller
    return fc_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  Stem stem_;
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  std::array<nn::Sequential, 4> layers_;
  nn::Linear fc_ = nullptr;
};

}  // namespace

std::shared_ptr<Classifier> create_resnet18(std::int64_t num_classes) {
  return std::make_shared<ResNet<BasicBlock>>(std::array<std::int64_t, 4>{2, 2, 2, 2}, num_classes);
}

std::shared_ptr<Classifier> create_small_resnet18(std::int64_t num_classes) {
  return std::make_shared<ResNet<BasicBlock>>(std::array<std::int64_t, 4>{2, 2, 2, 2}, num_classes, Stem::kSmall);
}

std::shared_ptr<Classifier> create_resnet50(std::int64_t num_classes) {
  return std::make_shared<ResNet<Bottleneck>>(std::array<std::int64_t, 4>{3, 4, 6, 3}, num_classes);
}

}  // namespace mn::models
