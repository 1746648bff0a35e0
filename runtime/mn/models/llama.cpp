#include <mn/models/llama.hpp>

#include <string>

#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/kernels/layer_norm.hpp>
#include <mn/models/adaptable_linear.hpp>
#include <mn/models/decoder.hpp>
#include <mn/models/residual_stream.hpp>
#include <mn/models/rotary.hpp>

namespace mn::models {
namespace {

namespace nn = torch::nn;
using Linear = std::shared_ptr<AdaptableLinear>;

/// What the layers know about positions.
struct Positions {
  Rotation rotation;
  // Masks of attention in layers without a window and with one (AttentionInputs); undefined: to all tokens before.
  torch::Tensor mask, window;
};

/// Normalization by the root mean square.
class RmsNorm : public nn::Module {
 public:
  RmsNorm(std::int64_t width, double eps) : eps_(eps), weight_(register_parameter("weight", torch::ones({width}))) {}

  ResidualNorm forward(const Stream& stream) { return rms_norm_residual(stream.sum, stream.branch, weight_, eps_); }

 private:
  double eps_;
  torch::Tensor weight_;
};

class GroupedAttention : public nn::Module {
 public:
  GroupedAttention(const LlamaOptions& options, std::int64_t layer)
      : head_width_(options.head_width),
        dropout_(options.dropout),
        window_(layer >= options.first_windowed ? options.window : 0) {
    const std::int64_t own = options.heads * head_width_, shared = options.key_value_heads * head_width_;
    const auto add = [&](const char* name, std::int64_t from, std::int64_t to, bool bias) {
      return register_module(name, std::make_shared<AdaptableLinear>(from, to, bias));
    };
    q_proj_ = add("q_proj", options.width, own, options.query_bias);
    k_proj_ = add("k_proj", options.width, shared, options.query_bias);
    v_proj_ = add("v_proj", options.width, shared, options.query_bias);
    o_proj_ = add("o_proj", own, options.width, options.output_bias);
    if (!options.normalizes_heads) return;
    q_norm_ = register_module("q_norm", std::make_shared<RmsNorm>(head_width_, options.eps));
    k_norm_ = register_module("k_norm", std::make_shared<RmsNorm>(head_width_, options.eps));
  }

  torch::Tensor forward(const torch::Tensor& x, const Positions& positions, KeyValueCache* cache) {
    const torch::Tensor seen = attend({.query = rotate(heads_of(q_proj_, x, q_norm_), positions.rotation),
                                       .key = rotate(heads_of(k_proj_, x, k_norm_), positions.rotation),
                                       .value = heads_of(v_proj_, x, nullptr),
                                       .mask = window_ > 0 ? positions.window : positions.mask,
                                       .window = window_,
                                       .dropout = is_training() ? dropout_ : 0},
                                      cache, this);
    return o_proj_->forward(seen);
  }

 private:
  /// (N, T, width) → (N, heads, T, head width)
  [[nodiscard]] torch::Tensor heads_of(const Linear& layer, const torch::Tensor& x,
                                       const std::shared_ptr<RmsNorm>& norm) const {
    const torch::Tensor heads = layer->forward(x).unflatten(-1, {-1, head_width_});
    return (norm ? norm->forward({heads, {}}).normalized : heads).transpose(1, 2);
  }

  std::int64_t head_width_;
  double dropout_;
  std::int64_t window_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
  std::shared_ptr<RmsNorm> q_norm_, k_norm_;
};

/// SwiGLU (Shazeer 2020, arXiv:2002.05202).
class GatedPerceptron : public nn::Module {
 public:
  explicit GatedPerceptron(const LlamaOptions& options) {
    const auto add = [&](const char* name, std::int64_t from, std::int64_t to) {
      return register_module(name, std::make_shared<AdaptableLinear>(from, to, options.perceptron_bias));
    };
    gate_proj_ = add("gate_proj", options.width, options.hidden);
    up_proj_ = add("up_proj", options.width, options.hidden);
    down_proj_ = add("down_proj", options.hidden, options.width);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return down_proj_->forward(torch::silu(gate_proj_->forward(x)) * up_proj_->forward(x));
  }

 private:
  Linear gate_proj_, up_proj_, down_proj_;
};

/// Normalization and attention, then normalization and perceptron; each half adds its input to its output.
class LlamaLayer : public nn::Module {
 public:
  LlamaLayer(const LlamaOptions& options, std::int64_t layer)
      : self_attn_(register_module("self_attn", std::make_shared<GroupedAttention>(options, layer))),
        mlp_(register_module("mlp", std::make_shared<GatedPerceptron>(options))),
        input_layernorm_(register_module("input_layernorm", std::make_shared<RmsNorm>(options.width, options.eps))),
        post_attention_layernorm_(
            register_module("post_attention_layernorm", std::make_shared<RmsNorm>(options.width, options.eps))) {}

  Stream forward(const Stream& stream, const Positions& positions, KeyValueCache* cache) {
    const ResidualNorm first = input_layernorm_->forward(stream);
    const ResidualNorm second =
        post_attention_layernorm_->forward({first.sum, self_attn_->forward(first.normalized, positions, cache)});
    return {second.sum, mlp_->forward(second.normalized)};
  }

 private:
  std::shared_ptr<GroupedAttention> self_attn_;
  std::shared_ptr<GatedPerceptron> mlp_;
  std::shared_ptr<RmsNorm> input_layernorm_, post_attention_layernorm_;
};

/// Documents need no positions of their own, because attention depends on distances.
Positions positions_of(std::int64_t first, std::int64_t length, const LlamaOptions& options,
                       const torch::Tensor& documents, torch::Device device) {
  const torch::Tensor mask = documents.defined() ? document_mask(documents) : torch::Tensor();
  Positions positions = {rotation_of(first, length, options.head_width, options.rotary, device), mask, mask};
  if (options.window == 0 || options.window >= length) return positions;
  const auto numbers = torch::arange(length, torch::dtype(torch::kLong).device(device));
  const torch::Tensor distances = numbers.unsqueeze(1) - numbers;
  positions.window = (distances >= 0).logical_and(distances < options.window);
  if (mask.defined()) positions.window = positions.window.logical_and(mask);
  return positions;
}

bool is_output(const std::string& name) {
  return name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
}

}  // namespace

Llama::Llama(const LlamaOptions& options)
    : options_(options.resolved()),
      embed_tokens_(std::make_shared<nn::EmbeddingImpl>(options_.vocabulary, options_.width)),
      layers_(std::make_shared<nn::ModuleListImpl>()),
      norm_(std::make_shared<RmsNorm>(options_.width, options_.eps)) {
  const auto body = register_module("model", std::make_shared<nn::Module>());
  body->register_module("embed_tokens", embed_tokens_);
  body->register_module("layers", layers_);
  for (std::int64_t i = 0; i < options_.layers; ++i) layers_->push_back(std::make_shared<LlamaLayer>(options_, i));
  body->register_module("norm", norm_);
  if (!options_.tied) {
    const auto head = nn::LinearOptions(options_.width, options_.vocabulary).bias(false);
    lm_head_ = register_module("lm_head", std::make_shared<nn::LinearImpl>(head));
  }
  draw_weights(*this, options_.layers, is_output);
}

torch::Tensor Llama::do_forward(const torch::Tensor& tokens, const torch::Tensor& documents, bool recompute,
                                KeyValueCache* cache) {
  const std::int64_t first = cache != nullptr ? cache->length : 0;
  const Positions positions = positions_of(first, tokens.size(1), options_, documents, tokens.device());
  const Stream stream =
      run_layers<LlamaLayer>(*layers_, {embed_tokens_->forward(tokens), {}}, recompute, positions, cache);
  return torch::linear(norm_->as<RmsNorm>()->forward(stream).normalized,
                       lm_head_ ? lm_head_->weight : embed_tokens_->weight);
}

}  // namespace mn::models
