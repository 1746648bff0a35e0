/// Decoder-only transformers built like Llama (Touvron et al. 2023, arXiv:2302.13971), and those that differ in a few
/// options: Mistral, Qwen2 and Qwen3.
#pragma once

#include <memory>

#include <mn/models/language_model.hpp>
#include <mn/models/network_options.hpp>

namespace torch::nn {
class EmbeddingImpl;
class LinearImpl;
class ModuleListImpl;
}  // namespace torch::nn

namespace mn::models {

/// A Llama network. Its parameters have Hugging Face's names ("model.layers.0.self_attn.q_proj.weight").
class Llama : public LanguageModel {
 public:
  /// Makes a network with random weights, drawn from libtorch's random numbers. Throws ArgumentError if options
  /// contradict each other.
  explicit Llama(const LlamaOptions& options);

 private:
  torch::Tensor do_forward(const torch::Tensor& tokens, const torch::Tensor& documents, bool recompute,
                           KeyValueCache* cache) override;

  LlamaOptions options_;
  std::shared_ptr<torch::nn::EmbeddingImpl> embed_tokens_;
  std::shared_ptr<torch::nn::ModuleListImpl> layers_;
  std::shared_ptr<torch::nn::Module> norm_;
  std::shared_ptr<torch::nn::LinearImpl> lm_head_;  // null: tied
};

}  // namespace mn::models
