// ConvNeXt (Liu et al. 2022, arXiv:2201.03545), with timm's names. Between the convolutions, images are (N, C, H, W)
// tensors that lie in memory as (N, H, W, C), because norms and linear layers work along the channels.
#include <array>

#include <torch/torch.h>

#include <mn/kernels/layer_norm.hpp>
#include <mn/models/models.hpp>
#include <mn/models/stochastic_depth.hpp>
#include <mn/nn/recompute.hpp>

namespace mn::models {
namespace {

namespace nn = torch::nn;

constexpr double kLayerScale = 1e-6;  // first value of gamma

nn::LayerNormOptions channel_norm_options(std::int64_t channels) { return nn::LayerNormOptions({channels}).eps(1e-6); }

/// Normalizes along the last dimension. Under autocast, the result has autocast's type.
torch::Tensor normalize_channels(const nn::LayerNormImpl& norm, const torch::Tensor& x) {
  return layer_norm_residual(x, {}, norm.weight, norm.bias, norm.options.eps()).normalized;
}

/// Normalizes the channels of images (N, C, H, W).
class ChannelNorm : public nn::LayerNormImpl {
 public:
  explicit ChannelNorm(std::int64_t channels) : nn::LayerNormImpl(channel_norm_options(channels)) {}
  torch::Tensor forward(const torch::Tensor& images) {
    return normalize_channels(*this, images.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
  }
};

nn::Conv2d patch_convolution(std::int64_t in, std::int64_t out, std::int64_t size) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, size).stride(size));
}

class ConvNextPerceptron : public nn::Module {
 public:
  explicit ConvNextPerceptron(std::int64_t channels)
      : fc1_(register_module("fc1", nn::Linear(channels, 4 * channels))),
        fc2_(register_module("fc2", nn::Linear(4 * channels, channels))) {}
  torch::Tensor forward(const torch::Tensor& x) { return fc2_(torch::gelu(fc1_(x))); }

 private:
  nn::Linear fc1_, fc2_;
};

class ConvNextBlock : public nn::Module {
 public:
  ConvNextBlock(std::int64_t channels, double skip, bool recompute)
      : skip_(skip),
        recompute_(recompute),
        gamma_(register_parameter("gamma", torch::full({channels}, kLayerScale))),
        conv_dw_(register_module("conv_dw",
                                 nn::Conv2d(nn::Conv2dOptions(channels, channels, 7).padding(3).groups(channels)))),
        norm_(register_module("norm", nn::LayerNorm(channel_norm_options(channels)))),
        mlp_(register_module("mlp", std::make_shared<ConvNextPerceptron>(channels))) {}

  torch::Tensor forward(const torch::Tensor& images) {
    if (!recompute_) return run(images);
    return recompute_activations([this](const torch::Tensor& x) { return run(x); }, images);
  }

 private:
  torch::Tensor run(const torch::Tensor& images) {
    const torch::Tensor pixels = normalize_channels(*norm_, conv_dw_(images).permute({0, 2, 3, 1}));
    const torch::Tensor branch = mlp_->forward(pixels).permute({0, 3, 1, 2});
    return torch::addcmul(images, skip_branches(branch, is_training() ? skip_ : 0), gamma_.view({-1, 1, 1}));
  }

  double skip_;
  bool recompute_;
  torch::Tensor gamma_;
  nn::Conv2d conv_dw_;
  nn::LayerNorm norm_;
  std::shared_ptr<ConvNextPerceptron> mlp_;
};

/// Blocks, and before them a halving of the images' sides, except in the first stage.
class ConvNextStage : public nn::Module {
 public:
  ConvNextStage(std::int64_t in, std::int64_t channels) {
    if (in == channels) return;
    downsample_->push_back(std::make_shared<ChannelNorm>(in));
    downsample_->push_back(patch_convolution(in, channels, 2));
    register_module("downsample", downsample_);
  }
  void add(const std::shared_ptr<ConvNextBlock>& block) { blocks_->push_back(block); }
  void finish() { register_module("blocks", blocks_); }

  torch::Tensor forward(const torch::Tensor& images) {
    return blocks_->forward(downsample_->is_empty() ? images : downsample_->forward(images));
  }

 private:
  nn::Sequential downsample_, blocks_;
};

class ConvNextHead : public nn::Module {
 public:
  ConvNextHead(std::int64_t channels, std::int64_t num_classes)
      : norm_(register_module("norm", nn::LayerNorm(channel_norm_options(channels)))),
        fc_(register_module("fc", nn::Linear(channels, num_classes))) {}
  torch::Tensor forward(const torch::Tensor& images) { return fc_(normalize_channels(*norm_, images.mean({2, 3}))); }

 private:
  nn::LayerNorm norm_;
  nn::Linear fc_;
};

/// Blocks and channels of the four stages.
struct ConvNextForm {
  std::array<std::int64_t, 4> blocks, channels;
};
constexpr ConvNextForm kConvNextTiny = {{3, 3, 9, 3}, {96, 192, 384, 768}};
constexpr ConvNextForm kConvNextSmall = {{3, 3, 27, 3}, {96, 192, 384, 768}};
constexpr ConvNextForm kConvNextBase = {{3, 3, 27, 3}, {128, 256, 512, 1024}};

class ConvNext : public Classifier {
 public:
  ConvNext(const ConvNextForm& form, std::int64_t num_classes, const ClassifierOptions& options)
      : stem_(register_module("stem", nn::Sequential(patch_convolution(3, form.channels[0], 4)))) {
    stem_->push_back(std::make_shared<ChannelNorm>(form.channels[0]));
    const std::int64_t blocks = form.blocks[0] + form.blocks[1] + form.blocks[2] + form.blocks[3];
    for (std::int64_t i = 0, block = 0; i < 4; ++i) {
      const auto stage = std::make_shared<ConvNextStage>(form.channels[i > 0 ? i - 1 : 0], form.channels[i]);
      for (std::int64_t j = 0; j < form.blocks[i]; ++j, ++block) {
        const double skip = skip_probability(options.stochastic_depth, block, blocks);
        stage->add(std::make_shared<ConvNextBlock>(form.channels[i], skip, options.recompute));
      }
      stage->finish();
      stages_->push_back(stage);
    }
    register_module("stages", stages_);
    head_ = register_module("head", std::make_shared<ConvNextHead>(form.channels[3], num_classes));
    for (auto& item : named_parameters()) {
      if (item.value().dim() > 1) nn::init::normal_(item.value(), 0, 0.02);
      if (item.key().ends_with(".bias")) nn::init::zeros_(item.value());
    }
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    return head_->forward(stages_->forward(stem_->forward(images)));  // stage i: (N, channels[i], H/4/2^i, W/4/2^i)
  }

 private:
  nn::Sequential stem_, stages_;
  std::shared_ptr<ConvNextHead> head_;
};

}  // namespace

std::shared_ptr<Classifier> create_convnext_tiny(std::int64_t num_classes, const ClassifierOptions& options) {
  return std::make_shared<ConvNext>(kConvNextTiny, num_classes, options);
}

std::shared_ptr<Classifier> create_convnext_small(std::int64_t num_classes, const ClassifierOptions& options) {
  return std::make_shared<ConvNext>(kConvNextSmall, num_classes, options);
}

std::shared_ptr<Classifier> create_convnext_base(std::int64_t num_classes, const ClassifierOptions& options) {
  return std::make_shared<ConvNext>(kConvNextBase, num_classes, options);
}

}  // namespace mn::models
