#include <mn/models/gpt.hpp>

#include <string>

#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/kernels/linear_gelu.hpp>
#include <mn/models/adaptable_linear.hpp>
#include <mn/models/decoder.hpp>
#include <mn/models/residual_stream.hpp>
#include <mn/nn/mixture_of_experts.hpp>

namespace mn::models {
namespace {

namespace nn = torch::nn;

std::shared_ptr<AdaptableLinear> make_linear(std::int64_t inputs, std::int64_t outputs) {
  return std::make_shared<AdaptableLinear>(inputs, outputs);
}

class Attention : public nn::Module {
 public:
  explicit Attention(const GptOptions& options)
      : heads_(options.heads),
        dropout_(options.dropout),
        c_attn_(register_module("c_attn", make_linear(options.width, 3 * options.width))),
        c_proj_(register_module("c_proj", make_linear(options.width, options.width))) {}

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask, KeyValueCache* cache) {
    const std::int64_t n = x.size(0), length = x.size(1), width = x.size(2);
    // split() has a backward that writes the gradient once. The backward of select() would fill the whole gradient for
    // each part.
    auto parts = c_attn_->forward(x).split(width, 2);
    for (auto& part : parts) part = part.view({n, length, heads_, width / heads_}).transpose(1, 2);
    const torch::Tensor seen = attend(
        {.query = parts[0], .key = parts[1], .value = parts[2], .mask = mask, .dropout = is_training() ? dropout_ : 0},
        cache, this);
    return torch::dropout(c_proj_->forward(seen), dropout_, is_training());
  }

 private:
  std::int64_t heads_;
  double dropout_;
  std::shared_ptr<AdaptableLinear> c_attn_;
  std::shared_ptr<AdaptableLinear> c_proj_;
};

class Perceptron : public nn::Module {
 public:
  explicit Perceptron(const GptOptions& options)
      : dropout_(options.dropout),
        c_fc_(register_module("c_fc", make_linear(options.width, 4 * options.width))),
        c_proj_(register_module("c_proj", make_linear(4 * options.width, options.width))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor hidden =
        c_fc_->is_adapted() ? torch::gelu(c_fc_->forward(x), "tanh") : linear_gelu(x, c_fc_->weight, c_fc_->bias);
    return torch::dropout(c_proj_->forward(hidden), dropout_, is_training());
  }

 private:
  double dropout_;
  std::shared_ptr<AdaptableLinear> c_fc_;
  std::shared_ptr<AdaptableLinear> c_proj_;
};

MixtureOfExperts make_experts(const GptOptions& options) {
  return MixtureOfExperts(options.ranks, MixtureOfExpertsOptions{.width = options.width,
                                                                 .hidden = 4 * options.width,
                                                                 .experts = options.experts,
                                                                 .experts_per_token = options.experts_per_token,
                                                                 .capacity_factor = options.capacity_factor});
}

/// Normalization and attention, then normalization and perceptron; each half adds its input to its output.
class Layer : public nn::Module {
 public:
  explicit Layer(const GptOptions& options)
      : ln_1_(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({options.width})))),
        attn_(register_module("attn", std::make_shared<Attention>(options))),
        ln_2_(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({options.width})))),
        dropout_(options.dropout) {
    if (options.experts > 0) {
      experts_ = register_module("experts", make_experts(options));
    } else {
      mlp_ = register_module("mlp", std::make_shared<Perceptron>(options));
    }
  }

  /// With experts, adds the losses of the router to `losses`.
  Stream forward(const Stream& stream, RouterLosses* losses, const torch::Tensor& mask, KeyValueCache* cache) {
    const ResidualNorm first = normalize(*ln_1_, stream);
    const ResidualNorm second = normalize(*ln_2_, {first.sum, attn_->forward(first.normalized, mask, cache)});
    if (mlp_) return {second.sum, mlp_->forward(second.normalized)};
    const MixtureOfExpertsOutput mixed = experts_->forward(second.normalized);
    losses->balance = losses->balance.defined() ? losses->balance + mixed.balance_loss : mixed.balance_loss;
    losses->z = losses->z.defined() ? losses->z + mixed.z_loss : mixed.z_loss;
    return {second.sum, torch::dropout(mixed.output, dropout_, is_training())};
  }

 private:
  nn::LayerNorm ln_1_;
  std::shared_ptr<Attention> attn_;
  nn::LayerNorm ln_2_;
  double dropout_;
  std::shared_ptr<Perceptron> mlp_;  // null with experts
  MixtureOfExperts experts_{nullptr};
};

}  // namespace

Gpt::Gpt(const GptOptions& options)
    : options_(options),
      wte_(register_module("wte", std::make_shared<nn::EmbeddingImpl>(options.vocabulary, options.width))),
      wpe_(register_module("wpe", std::make_shared<nn::EmbeddingImpl>(options.context, options.width))),
      h_(register_module("h", std::make_shared<nn::ModuleListImpl>())),
      ln_f_(std::make_shared<nn::LayerNormImpl>(nn::LayerNormOptions({options.width}))) {
  if (options.heads < 1 || options.width % options.heads != 0) {
    throw ArgumentError("a width of " + std::to_string(options.width) + " can't be divided into " +
                        std::to_string(options.heads) + " heads");
  }
  if (options.experts > 0 && !options.ranks)
    throw ArgumentError("a Gpt with experts needs the communicator of its ranks");
  for (std::int64_t i = 0; i < options.layers; ++i) h_->push_back(std::make_shared<Layer>(options));
  register_module("ln_f", ln_f_);
  draw_weights(*this, options.layers, [](const std::string& name) { return name.ends_with("c_proj.weight"); });
}

torch::Tensor Gpt::do_forward(const torch::Tensor& tokens, const torch::Tensor& documents, bool recompute,
                              KeyValueCache* cache) {
  const std::int64_t first = cache != nullptr ? cache->length : 0;
  const bool is_packed = documents.defined();
  const auto positions =
      is_packed ? positions_in(documents) : torch::arange(first, first + tokens.size(1), tokens.options());
  const auto mask = is_packed ? document_mask(documents) : torch::Tensor();
  const auto input = torch::dropout(wte_->forward(tokens) + wpe_->forward(positions), options_.dropout, is_training());
  if (recompute && options_.experts > 0) throw ArgumentError("a Gpt with experts can't compute its activations again");
  router_losses_ = {};
  const Stream stream = run_layers<Layer>(*h_, {input, {}}, recompute, &router_losses_, mask, cache);
  const auto layers = static_cast<double>(options_.layers);
  if (options_.experts > 0) router_losses_ = {router_losses_.balance / layers, router_losses_.z / layers};
  return torch::linear(normalize(*ln_f_, stream).normalized, wte_->weight);
}

}  // namespace mn::models
