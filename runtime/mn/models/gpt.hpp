/// A decoder-only transformer, built like GPT-2 (Radford et al. 2019, Language Models are Unsupervised Multitask
/// Learners).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <torch/nn/module.h>

namespace mn {
class Communicator;
}
namespace torch::nn {
class EmbeddingImpl;
class LayerNormImpl;
class ModuleListImpl;
}  // namespace torch::nn

namespace mn::models {

/// The size of a Gpt.
struct GptOptions {
  std::int64_t vocabulary = 0;  ///< tokens
  std::int64_t context = 0;     ///< most tokens of an input
  std::int64_t layers = 4;      ///< each has attention and a perceptron
  std::int64_t heads = 4;       ///< heads of each layer's attention
  std::int64_t width = 128;     ///< width of the embeddings; a multiple of heads
  double dropout = 0;           ///< fraction of the activations that dropout zeroes in training

  std::int64_t experts = 0;            ///< experts of a MixtureOfExperts in place of each perceptron; 0: perceptrons
  std::int64_t experts_per_token = 2;  ///< experts that each token uses
  double capacity_factor = 0;          ///< limit of each expert's tokens in training; 0: no limit
  std::shared_ptr<Communicator> ranks = {};  ///< the ranks among which experts are divided; needed with experts
};

/// A GPT-2 network. Its parameters have Hugging Face's names ("h.0.attn.c_attn.weight"), but the weights of linear
/// layers have torch's layout (outputs, inputs). The embedding of tokens is also the output layer. With experts,
/// forward() and its backward are collective, and experts have no biases (mixture_of_experts.hpp).
class Gpt : public torch::nn::Module {
 public:
  /// Makes a network with random weights, drawn from libtorch's random numbers. Throws ArgumentError unless the width
  /// is a multiple of the heads. Collective with experts, which are made on the device of `ranks`.
  explicit Gpt(const GptOptions& options);

  /// Maps (N, T) int64 tokens to (N, T, vocabulary) logits: for each token, the logits of the next token. T is at most
  /// options.context. With `recompute`, backward computes the layers' activations again, and forward does not store
  /// them (recompute_activations()).
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& tokens, bool recompute = false);

  /// The losses of the routers in the last forward(), means over the layers. Undefined without experts.
  struct RouterLosses {
    torch::Tensor balance;  ///< load-balancing loss: 1 if all experts are used equally
    torch::Tensor z;        ///< router z-loss
  };
  [[nodiscard]] const RouterLosses& router_losses() const noexcept { return router_losses_; }  ///< see RouterLosses

 private:
  GptOptions options_;
  RouterLosses router_losses_;
  std::shared_ptr<torch::nn::EmbeddingImpl> wte_;
  std::shared_ptr<torch::nn::EmbeddingImpl> wpe_;
  std::shared_ptr<torch::nn::ModuleListImpl> h_;
  std::shared_ptr<torch::nn::LayerNormImpl> ln_f_;
};

/// Options of generate().
struct Sampling {
  std::int64_t length = 500;  ///< number of tokens to draw
  double temperature = 0.8;   ///< 0: always take the likeliest token
  std::int64_t top_k = 0;     ///< draw from the top_k likeliest tokens; 0: from all tokens
  std::uint64_t seed = 0;     ///< seed of the random choice of tokens
};

/// Generates text: draws the tokens after `prompt`, which has at least one token. The model must be in evaluation mode.
[[nodiscard]] std::vector<std::int32_t> generate(Gpt& model, std::vector<std::int32_t> prompt, std::int64_t context,
                                                 const Sampling& how, torch::Device device);

}  // namespace mn::models
