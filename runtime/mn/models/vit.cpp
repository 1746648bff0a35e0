// Vision transformers (Dosovitskiy et al. 2020, arXiv:2010.11929; ViT-S and ViT-Ti: Touvron et al. 2020,
// arXiv:2012.12877), with timm's names. The image's patches of 16 × 16 pixels, and a class token before them, are the
// tokens of a transformer.
#include <string>
#include <vector>

#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/models/models.hpp>
#include <mn/models/residual_stream.hpp>
#include <mn/models/stochastic_depth.hpp>

namespace mn::models {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kPatch = 16;  // height and width of a patch

/// The sizes of a network.
struct VitForm {
  std::int64_t layers, heads, width;
};
constexpr VitForm kVitTiny = {12, 3, 192};
constexpr VitForm kVitSmall = {12, 6, 384};
constexpr VitForm kVitBase = {12, 12, 768};

nn::LayerNorm vit_norm(std::int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-6)); }

class VitAttention : public nn::Module {
 public:
  VitAttention(const VitForm& form, double dropout)
      : heads_(form.heads),
        dropout_(dropout),
        qkv_(register_module("qkv", nn::Linear(form.width, 3 * form.width))),
        proj_(register_module("proj", nn::Linear(form.width, form.width))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const std::int64_t n = x.size(0), length = x.size(1), width = x.size(2);
    auto parts = qkv_(x).split(width, 2);
    for (auto& part : parts) part = part.view({n, length, heads_, width / heads_}).transpose(1, 2);
    const torch::Tensor seen = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return torch::dropout(proj_(seen.transpose(1, 2).reshape({n, length, width})), dropout_, is_training());
  }

 private:
  std::int64_t heads_;
  double dropout_;
  nn::Linear qkv_, proj_;
};

class VitPerceptron : public nn::Module {
 public:
  VitPerceptron(std::int64_t width, double dropout)
      : dropout_(dropout),
        fc1_(register_module("fc1", nn::Linear(width, 4 * width))),
        fc2_(register_module("fc2", nn::Linear(4 * width, width))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor hidden = torch::dropout(torch::gelu(fc1_(x)), dropout_, is_training());
    return torch::dropout(fc2_(hidden), dropout_, is_training());
  }

 private:
  double dropout_;
  nn::Linear fc1_, fc2_;
};

/// Normalization and attention, then normalization and perceptron; each half adds its input to its output.
class VitLayer : public nn::Module {
 public:
  VitLayer(const VitForm& form, double skip, const ClassifierOptions& options)
      : skip_(skip),
        norm1_(register_module("norm1", vit_norm(form.width))),
        attn_(register_module("attn", std::make_shared<VitAttention>(form, options.dropout))),
        norm2_(register_module("norm2", vit_norm(form.width))),
        mlp_(register_module("mlp", std::make_shared<VitPerceptron>(form.width, options.dropout))) {}

  Stream forward(const Stream& stream) {
    const double skip = is_training() ? skip_ : 0;
    const ResidualNorm first = normalize(*norm1_, stream);
    const torch::Tensor seen = skip_branches(attn_->forward(first.normalized), skip);
    const ResidualNorm second = normalize(*norm2_, {first.sum, seen});
    return {second.sum, skip_branches(mlp_->forward(second.normalized), skip)};
  }

 private:
  double skip_;
  nn::LayerNorm norm1_;
  std::shared_ptr<VitAttention> attn_;
  nn::LayerNorm norm2_;
  std::shared_ptr<VitPerceptron> mlp_;
};

class PatchEmbedding : public nn::Module {
 public:
  explicit PatchEmbedding(std::int64_t width)
      : proj_(register_module("proj", nn::Conv2d(nn::Conv2dOptions(3, width, kPatch).stride(kPatch)))) {}
  /// Maps images (N, 3, H, W) to tokens (N, H/16 · W/16, width).
  torch::Tensor forward(const torch::Tensor& images) { return proj_(images).flatten(2).transpose(1, 2); }

 private:
  nn::Conv2d proj_;
};

class Vit : public Classifier {
 public:
  Vit(const VitForm& form, std::int64_t num_classes, const ClassifierOptions& options) : options_(options) {
    if (options.image_size < kPatch || options.image_size % kPatch != 0) {
      throw ArgumentError("a ViT takes images whose sides are multiples of 16, not " +
                          std::to_string(options.image_size));
    }
    const std::int64_t side = options.image_size / kPatch;
    cls_token_ = register_parameter("cls_token", torch::empty({1, 1, form.width}));
    pos_embed_ = register_parameter("pos_embed", torch::empty({1, 1 + side * side, form.width}));
    patch_embed_ = register_module("patch_embed", std::make_shared<PatchEmbedding>(form.width));
    blocks_ = register_module("blocks", nn::ModuleList());
    for (std::int64_t i = 0; i < form.layers; ++i) {
      const double skip = skip_probability(options.stochastic_depth, i, form.layers);
      blocks_->push_back(std::make_shared<VitLayer>(form, skip, options));
    }
    norm_ = register_module("norm", vit_norm(form.width));
    head_ = register_module("head", nn::Linear(form.width, num_classes));
    initialize();
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    if (images.size(2) != options_.image_size || images.size(3) != options_.image_size) {
      throw ArgumentError("a ViT for images of " + std::to_string(options_.image_size) + " pixels a side got " +
                          std::to_string(images.size(2)) + " × " + std::to_string(images.size(3)));
    }
    const torch::Tensor tokens =
        torch::cat({cls_token_.expand({images.size(0), -1, -1}), patch_embed_->forward(images)}, 1) + pos_embed_;
    const Stream input = {torch::dropout(tokens, options_.dropout, is_training()), {}};
    Stream stream = run_layers<VitLayer>(*blocks_, input, options_.recompute);
    stream.sum = stream.sum.select(1, 0);  // the class token alone is classified
    if (stream.branch.defined()) stream.branch = stream.branch.select(1, 0);
    return head_(normalize(*norm_, stream).normalized);
  }

 private:
  void initialize() {
    nn::init::normal_(cls_token_, 0, 1e-6);
    nn::init::normal_(pos_embed_, 0, 0.02);
    for (const auto& module : modules(/*include_self=*/false)) {
      auto* const linear = module->as<nn::Linear>();
      if (linear == nullptr) continue;
      nn::init::normal_(linear->weight, 0, 0.02);
      nn::init::zeros_(linear->bias);
    }
  }

  ClassifierOptions options_;
  torch::Tensor cls_token_, pos_embed_;
  std::shared_ptr<PatchEmbedding> patch_embed_;
  nn::ModuleList blocks_{nullptr};
  nn::LayerNorm norm_{nullptr};
  nn::Linear head_{nullptr};
};

}  // namespace

std::shared_ptr<Classifier> create_vit_ti_16(std::int64_t num_classes, const ClassifierOptions& options) {
  return std::make_shared<Vit>(kVitTiny, num_classes, options);
}

std::shared_ptr<Classifier> create_vit_s_16(std::int64_t num_classes, const ClassifierOptions& options) {
  return std::make_shared<Vit>(kVitSmall, num_classes, options);
}

std::shared_ptr<Classifier> create_vit_b_16(std::int64_t num_classes, const ClassifierOptions& options) {
  return std::make_shared<Vit>(kVitBase, num_classes, options);
}

}  // namespace mn::models
