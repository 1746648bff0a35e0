/// Options of language models.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

namespace mn {
class Communicator;
}

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

/// The frequencies f(i) of rotary embeddings: base^(−2i / width), and their scaling for longer contexts.
struct RotaryOptions {
  /// How the frequencies are scaled.
  enum class Scaling : std::uint8_t {
    kNone,    ///< as they are
    kLinear,  ///< all frequencies are divided by `factor`
    kLlama3,  ///< low frequencies are divided by `factor`, high ones are kept, and those between are blended
  };
  double base = 10000;               ///< the b in f(i) = b^(−2i / width)
  Scaling scaling = Scaling::kNone;  ///< for contexts longer than in an earlier training
  double factor = 1;                 ///< by which low frequencies are divided
  double low = 1;   ///< kLlama3: frequencies with fewer periods in `original_context` positions are low
  double high = 4;  ///< kLlama3: frequencies with more periods in `original_context` positions are high
  std::int64_t original_context = 8192;  ///< kLlama3: context of the training before the scaling
};

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

/// A language model's options.
using NetworkOptions = std::variant<GptOptions, LlamaOptions>;

}  // namespace mn::models
