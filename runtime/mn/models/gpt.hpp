/// A decoder-only transformer, built like GPT-2 (Radford et al. 2019, Language Models are Unsupervised Multitask
/// Learners).
#pragma once

#include <memory>

#include <mn/models/language_model.hpp>
#include <mn/models/network_options.hpp>

namespace torch::nn {
class EmbeddingImpl;
class LayerNormImpl;
class ModuleListImpl;
}  // namespace torch::nn

namespace mn::models {

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
