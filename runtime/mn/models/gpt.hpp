/// A decoder-only transformer, built like GPT-2 (Radford et al. 2019, Language Models are Unsupervised Multitask
/// Learners).
#pragma once

#include <cstdint>
#include <memory>

#include <mn/models/language_model.hpp>

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
class Gpt : public LanguageModel {
 public:
  /// Makes a network with random weights, drawn from libtorch's random numbers. Throws ArgumentError unless the width
  /// is a multiple of the heads. Collective with experts, which are made on the device of `ranks`.
  explicit Gpt(const GptOptions& options);

 private:
  torch::Tensor do_forward(const torch::Tensor& tokens, const torch::Tensor& documents, bool recompute,
                           KeyValueCache* cache) override;

  GptOptions options_;
  std::shared_ptr<torch::nn::EmbeddingImpl> wte_;
  std::shared_ptr<torch::nn::EmbeddingImpl> wpe_;
  std::shared_ptr<torch::nn::ModuleListImpl> h_;
  std::shared_ptr<torch::nn::LayerNormImpl> ln_f_;
};

}  // namespace mn::models
