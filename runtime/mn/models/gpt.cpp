#include <mn/models/gpt.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/kernels/layer_norm.hpp>
#include <mn/kernels/linear_gelu.hpp>
#include <mn/nn/mixture_of_experts.hpp>
#include <mn/nn/recompute.hpp>

namespace mn::models {
namespace {

namespace nn = torch::nn;

torch::Tensor linear(const nn::Linear& layer, const torch::Tensor& x) {
  return torch::linear(x, layer->weight, layer->bias);
}

class Attention : public nn::Module {
 public:
  explicit Attention(const GptOptions& options)
      : heads_(options.heads),
        dropout_(options.dropout),
        c_attn_(register_module("c_attn", nn::Linear(options.width, 3 * options.width))),
        c_proj_(register_module("c_proj", nn::Linear(options.width, options.width))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const std::int64_t n = x.size(0), length = x.size(1), width = x.size(2);
    // split() has a backward that writes the gradient once. The backward of select() would fill the whole gradient for
    // each part.
    auto parts = linear(c_attn_, x).split(width, 2);
    for (auto& part : parts) part = part.view({n, length, heads_, width / heads_}).transpose(1, 2);
    const auto seen = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{},
                                                          is_training() ? dropout_ : 0, /*is_causal=*/true);
    return torch::dropout(linear(c_proj_, seen.transpose(1, 2).reshape({n, length, width})), dropout_, is_training());
  }

 private:
  std::int64_t heads_;
  double dropout_;
  nn::Linear c_attn_;
  nn::Linear c_proj_;
};

class Perceptron : public nn::Module {
 public:
  explicit Perceptron(const GptOptions& options)
      : dropout_(options.dropout),
        c_fc_(register_module("c_fc", nn::Linear(options.width, 4 * options.width))),
        c_proj_(register_module("c_proj", nn::Linear(4 * options.width, options.width))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return torch::dropout(linear(c_proj_, linear_gelu(x, c_fc_->weight, c_fc_->bias)), dropout_, is_training());
  }

 private:
  double dropout_;
  nn::Linear c_fc_;
  nn::Linear c_proj_;
};

/// The next normalization adds `branch`, the output of the last branch, to the residual stream `sum`.
struct Stream {
  torch::Tensor sum, branch;
};

MixtureOfExperts make_experts(const GptOptions& options) {
  return MixtureOfExperts(options.ranks, MixtureOfExpertsOptions{.width = options.width,
                                                                 .hidden = 4 * options.width,
                                                                 .experts = options.experts,
                                                                 .experts_per_token = options.experts_per_token,
                                                                 .capacity_factor = options.capacity_factor});
}

ResidualNorm normalize(const nn::LayerNormImpl& layer, const Stream& stream) {
  return layer_norm_residual(stream.sum, stream.branch, layer.weight, layer.bias, layer.options.eps());
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
  Stream forward(const Stream& stream, Gpt::RouterLosses& losses) {
    const ResidualNorm first = normalize(*ln_1_, stream);
    const ResidualNorm second = normalize(*ln_2_, {first.sum, attn_->forward(first.normalized)});
    if (mlp_) return {second.sum, mlp_->forward(second.normalized)};
    const MixtureOfExpertsOutput mixed = experts_->forward(second.normalized);
    losses.balance = losses.balance.defined() ? losses.balance + mixed.balance_loss : mixed.balance_loss;
    losses.z = losses.z.defined() ? losses.z + mixed.z_loss : mixed.z_loss;
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

/// Draws weights from N(0, 0.02²). If a linear layer's output is added to the residual stream, its weights are divided
/// by the square root of the number of such layers. Experts keep their weights.
void initialize(nn::Module& model, std::int64_t layers) {
  const torch::NoGradGuard no_grad;
  const double narrow = 0.02 / std::sqrt(2.0 * static_cast<double>(layers));
  for (auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    if (name.ends_with("_proj")) continue;
    if (item.value().dim() >= 2) {
      nn::init::normal_(item.value(), 0, name.ends_with("c_proj.weight") ? narrow : 0.02);
    } else if (name.ends_with(".bias")) {
      nn::init::zeros_(item.value());
    }
  }
}

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
  initialize(*this, options.layers);
}

torch::Tensor Gpt::forward(const torch::Tensor& tokens, bool recompute) {
  const auto positions = torch::arange(tokens.size(1), tokens.options());
  Stream stream = {torch::dropout(wte_->forward(tokens) + wpe_->forward(positions), options_.dropout, is_training()),
                   {}};
  if (recompute && options_.experts > 0) throw ArgumentError("a Gpt with experts can't compute its activations again");
  RouterLosses losses;
  for (const auto& module : *h_) {
    auto& layer = *module->as<Layer>();
    if (!recompute) {
      stream = layer.forward(stream, losses);
      continue;
    }
    const auto forward = [&layer](const torch::Tensor& input) {
      RouterLosses none;
      const Stream output = layer.forward({input, {}}, none);
      return output.sum + output.branch;
    };
    stream.sum = recompute_activations(forward, stream.sum);
  }
  const auto layers = static_cast<double>(options_.layers);
  if (losses.z.defined()) router_losses_ = {losses.balance / layers, losses.z / layers};
  return torch::linear(normalize(*ln_f_, stream).normalized, wte_->weight);
}

std::vector<std::int32_t> generate(Gpt& model, std::vector<std::int32_t> prompt, std::int64_t context,
                                   const Sampling& how, torch::Device device) {
  const torch::NoGradGuard no_grad;
  auto numbers = at::make_generator<at::CPUGeneratorImpl>(how.seed);
  std::vector<std::int32_t> made;
  for (std::int64_t i = 0; i < how.length; ++i) {
    const auto seen = std::min<std::int64_t>(context, static_cast<std::int64_t>(prompt.size()));
    const auto tokens = torch::tensor(at::ArrayRef<std::int32_t>(prompt).slice(prompt.size() - seen), torch::kLong);
    auto logits = model.forward(tokens.unsqueeze(0).to(device))[0][-1].to(torch::kCPU, torch::kFloat);
    if (how.top_k > 0 && how.top_k < logits.size(0)) {
      const auto least = std::get<0>(logits.topk(how.top_k))[-1];
      logits.masked_fill_(logits < least, -INFINITY);
    }
    const auto next = how.temperature > 0
                          ? torch::multinomial(torch::softmax(logits / how.temperature, 0), 1, false, numbers)
                          : logits.argmax().view({1});
    made.push_back(static_cast<std::int32_t>(next.item<std::int64_t>()));
    prompt.push_back(made.back());
  }
  return made;
}

}  // namespace mn::models
