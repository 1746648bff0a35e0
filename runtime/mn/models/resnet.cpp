#include <mn/models/models.hpp>

#include <array>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <mn/nn/batch_norm.hpp>

namespace mn::models {
namespace {

namespace nn = torch::nn;

nn::Conv2d biasless_convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

enum class BlockKind : std::uint8_t {
  kBasic,       ///< two 3×3 convolutions
  kBottleneck,  ///< 1×1 to fewer channels, 3×3, and 1×1 to four times the channels
};
constexpr std::int64_t expansion(BlockKind kind) { return kind == BlockKind::kBasic ? 1 : 4; }

/// Convolutions, each with a normalization. The block's input is added to the output of the last one.
class Block : public nn::Module {
 public:
  Block(BlockKind kind, std::int64_t in, std::int64_t width, std::int64_t stride) {
    const std::int64_t out = width * expansion(kind);
    if (kind == BlockKind::kBasic) {
      add(in, width, 3, stride);
      add(width, width, 3, 1);
    } else {
      add(in, width, 1, 1);
      add(width, width, 3, stride);
      add(width, out, 1, 1);
    }
    if (stride == 1 && in == out) return;
    // A convolution gives the shortcut the output's shape. Torchvision's names: "downsample.0" and "downsample.1".
    downsample_ =
        register_module("downsample", nn::Sequential(biasless_convolution(in, out, 1, stride), nn::BatchNorm2d(out)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const std::size_t last = convolutions_.size() - 1;
    torch::Tensor y = x;
    for (std::size_t i = 0; i < last; ++i) y = batch_norm_relu(normalizations_[i], convolutions_[i](y));
    return batch_norm_relu(normalizations_[last], convolutions_[last](y),
                           downsample_.is_empty() ? x : downsample_->forward(x));
  }

 private:
  void add(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    const std::string number = std::to_string(convolutions_.size() + 1);
    convolutions_.push_back(register_module("conv" + number, biasless_convolution(in, out, kernel, stride)));
    normalizations_.push_back(register_module("bn" + number, nn::BatchNorm2d(out)));
  }

  std::vector<nn::Conv2d> convolutions_;
  std::vector<nn::BatchNorm2d> normalizations_;
  nn::Sequential downsample_ = nullptr;
};

/// The layers before the blocks. kLarge reduces each side of the image to a quarter; kSmall keeps the sides.
enum class Stem : std::uint8_t { kLarge, kSmall };

class ResNet : public Classifier {
 public:
  ResNet(BlockKind kind, const std::array<std::int64_t, 4>& blocks, std::int64_t num_classes, Stem stem = Stem::kLarge)
      : stem_(stem),
        conv1_(register_module(
            "conv1", stem == Stem::kLarge ? biasless_convolution(3, 64, 7, 2) : biasless_convolution(3, 64, 3, 1))),
        bn1_(register_module("bn1", nn::BatchNorm2d(64))) {
    std::int64_t channels = 64;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::int64_t width = std::int64_t{64} << i;
      for (std::int64_t block = 0; block < blocks[i]; ++block) {
        layers_[i]->push_back(std::make_shared<Block>(kind, channels, width, i > 0 && block == 0 ? 2 : 1));
        channels = width * expansion(kind);
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
    torch::Tensor x = batch_norm_relu(bn1_, conv1_(images));  // (N, 64, H/2, W/2); kSmall: (N, 64, H, W)
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

constexpr std::array<std::int64_t, 4> kBlocks18 = {2, 2, 2, 2};

}  // namespace

std::shared_ptr<Classifier> create_resnet18(std::int64_t num_classes) {
  return std::make_shared<ResNet>(BlockKind::kBasic, kBlocks18, num_classes);
}

std::shared_ptr<Classifier> create_small_resnet18(std::int64_t num_classes) {
  return std::make_shared<ResNet>(BlockKind::kBasic, kBlocks18, num_classes, Stem::kSmall);
}

std::shared_ptr<Classifier> create_resnet50(std::int64_t num_classes) {
  return std::make_shared<ResNet>(BlockKind::kBottleneck, std::array<std::int64_t, 4>{3, 4, 6, 3}, num_classes);
}

}  // namespace mn::models
