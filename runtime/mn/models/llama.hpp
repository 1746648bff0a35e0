/// Decoder-only transformers built like Llama (Touvron et al. 2023, arXiv:2302.13971), and those that differ in a few
/// options: Mistral, Qwen2 and Qwen3.
#pragma once

#include <cstdint>
#include <memory>

#include <mn/models/language_model.hpp>
#include <mn/models/rotary.hpp>

namespace torch::nn {
class EmbeddingImpl;
class LinearImpl;
class ModuleListImpl;
}  // namespace torch::nn

namespace mn::models {

/// The size of a Llama, and how it is built.
struct LlamaOptions {
  std::int64_t vocabulary = 0;       ///< tokens
  std::int64_t context = 0;          ///< most tokens of an input
  std::int64_t layers = 4;           ///< each has attention and a perceptron
  std::int64_t heads = 4;            ///< heads of the queries
  std::int64_t key_value_heads = 0;  ///< heads of keys and values, a divisor of heads; 0: as many as heads
  std::int64_t head_width = 0;       ///< elements of a head, an even number; 0: width / heads
  std::int64_t width = 128;          ///< width of the embeddings
  std::int64_t hidden = 0;           ///< width inside the perceptron; 0: 8/3 of the width, rounded up to 32
  double dropout = 0;                ///< fraction of the attention that dropout zeroes in training
  double eps = 1e-5;                 ///< added to the mean square in normalizations
  RotaryOptions rotary = {};         ///< embeddings of positions
  bool tied = false;                 ///< the embedding of tokens is also the output layer
  bool query_bias = false;           ///< projections to queries, keys and values have biases
  bool output_bias = false;          ///< the projection of attention's output has a bias
  bool perceptron_bias = false;      ///< the perceptron's layers have biases
  bool normalizes_heads = false;     ///< each head's query and key is normalized before the rotation
  std::int64_t window = 0;           ///< a token attends to itself and to window − 1 tokens before; 0: to all before
  std::int64_t first_windowed = 0;   ///< layers before this one have no window

  /// The same options, with numbers in place of zeros that stand for other options. Throws ArgumentError if options
  /// contradict each other.
  [[nodiscard]] LlamaOptions resolved() const;
};

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
