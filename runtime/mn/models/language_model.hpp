/// Networks that predict the next token, and the generation of text with them.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

namespace mn::models {

/// The losses of the routers of a network with experts, means over its layers.
struct RouterLosses {
  torch::Tensor balance;  ///< load-balancing loss: 1 if all experts are used equally
  torch::Tensor z;        ///< router z-loss
};

/// The keys and values of the tokens that a language model has read, with which it reads the tokens after them.
struct KeyValueCache {
  std::int64_t length = 0;  ///< number of tokens read
  /// For each attention, by its address: keys and values, (N, heads, length, head width).
  std::unordered_map<const void*, std::pair<torch::Tensor, torch::Tensor>> layers;
};

/// A network that maps a sequence of tokens to the logits of the tokens that follow.
class LanguageModel : public torch::nn::Module {
 public:
  /// Maps (N, T) int64 tokens to (N, T, vocabulary) logits: for each token, the logits of the next token. T is at most
  /// the network's context. With `recompute`, backward computes the layers' activations again, and forward does not
  /// store them (recompute_activations()). If `documents` is given, (N, T) numbers of the tokens' documents, then each
  /// document in a sequence, whose tokens are neighbors, has the logits that it would have alone.
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& tokens, bool recompute = false,
                                      const torch::Tensor& documents = {}) {
    const bool is_usual = is_training() && !documents.defined() && !recompute;
    const torch::Tensor logits = is_usual && training_forward_ ? training_forward_(tokens) : torch::Tensor();
    return logits.defined() ? logits : do_forward(tokens, documents, recompute, nullptr);
  }
  /// From now on forward() in training mode calls `compiled`, which computes the same, or returns an undefined tensor
  /// if it does not take this number of samples. forward() does not call it if the tokens have documents or activations
  /// are computed again. An empty function: no longer.
  void set_training_forward(std::function<torch::Tensor(const torch::Tensor& tokens)> compiled) {
    training_forward_ = std::move(compiled);
  }
  /// Maps the tokens that follow those in `cache` to logits, and adds them to the cache: any number of tokens if the
  /// cache is empty, otherwise one token (T = 1). Throws ArgumentError for several tokens.
  [[nodiscard]] torch::Tensor read(const torch::Tensor& tokens, KeyValueCache& cache);

  /// The losses of the last forward(); undefined tensors in a network without experts.
  [[nodiscard]] const RouterLosses& router_losses() const noexcept { return router_losses_; }

 protected:
  RouterLosses router_losses_;  ///< a network with experts sets it in each do_forward()

 private:
  std::function<torch::Tensor(const torch::Tensor&)> training_forward_;
  /// `documents` may be undefined; if it is defined, `cache` is null.
  virtual torch::Tensor do_forward(const torch::Tensor& tokens, const torch::Tensor& documents, bool recompute,
                                   KeyValueCache* cache) = 0;
};

/// Options of generate().
struct Sampling {
  std::int64_t length = 500;    ///< number of tokens to draw
  double temperature = 0.8;     ///< 0: always take the likeliest token
  std::int64_t top_k = 0;       ///< draw from the top_k likeliest tokens; 0: from all tokens
  double top_p = 1;             ///< draw from the likeliest tokens whose probabilities sum to top_p (nucleus sampling)
  std::uint64_t seed = 0;       ///< seed of the random choice of tokens
  std::int64_t vocabulary = 0;  ///< draw from the tokens below this number; 0: from all tokens
};

/// Generates text: draws the tokens after `prompt`, which has at least one token. The model must be in evaluation mode.
[[nodiscard]] std::vector<std::int32_t> generate(LanguageModel& model, std::vector<std::int32_t> prompt,
                                                 std::int64_t context, const Sampling& how, torch::Device device);

}  // namespace mn::models
