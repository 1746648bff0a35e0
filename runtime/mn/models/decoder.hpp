/// Parts that the decoder-only networks share.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include <torch/torch.h>

#include <mn/models/language_model.hpp>

namespace mn::models {

/// Scaled dot products of queries with keys, which weigh values. All have the shape (N, heads, T, head width). Keys and
/// values may have fewer heads, which neighboring heads of the queries share.
struct AttentionInputs {
  torch::Tensor query, key, value;
  /// (T, T) or (N, 1, T, T), true where a token attends to another; undefined: to all tokens before
  torch::Tensor mask = {};
  std::int64_t window = 0;  ///< a token read with a cache attends to so many last tokens; 0: to all
  double dropout = 0;       ///< fraction of the weights that dropout zeroes
};

/// Returns (N, T, heads · head width). With a cache, first appends keys and values to those of `layer` there, and
/// attends to all of them.
inline torch::Tensor attend(AttentionInputs inputs, KeyValueCache* cache, const void* layer) {
  bool is_causal = !inputs.mask.defined();
  if (cache != nullptr) {
    auto& [keys, values] = cache->layers[layer];
    keys = keys.defined() ? torch::cat({keys, inputs.key}, 2) : inputs.key;
    values = values.defined() ? torch::cat({values, inputs.value}, 2) : inputs.value;
    is_causal = is_causal && cache->length == 0;
    const bool cuts = cache->length > 0 && inputs.window > 0;
    inputs.key = cuts ? keys.slice(2, -inputs.window) : keys;
    inputs.value = cuts ? values.slice(2, -inputs.window) : values;
  }
  const torch::Tensor seen = torch::scaled_dot_product_attention(
      inputs.query, inputs.key, inputs.value, inputs.mask.defined() ? std::optional(inputs.mask) : std::nullopt,
      inputs.dropout, is_causal,
      /*scale=*/std::nullopt, /*enable_gqa=*/inputs.key.size(1) != inputs.query.size(1));
  return seen.transpose(1, 2).flatten(2);
}

/// The mask (N, 1, T, T) with which a token attends to the tokens of its document up to itself. `documents` are (N, T)
/// numbers.
inline torch::Tensor document_mask(const torch::Tensor& documents) {
  return (documents.unsqueeze(2) == documents.unsqueeze(1)).tril().unsqueeze(1);
}

/// The positions (N, T) of tokens within documents. The tokens of a document are neighbors.
inline torch::Tensor positions_in(const torch::Tensor& documents) {
  const auto numbers = torch::arange(documents.size(1), documents.options().dtype(torch::kLong));
  const auto begins = torch::ones_like(documents, torch::kBool);
  begins.slice(1, 1).copy_(documents.slice(1, 1) != documents.slice(1, 0, -1));
  return numbers - std::get<0>(torch::cummax(numbers * begins, 1));
}

/// Draws weights from N(0, 0.02²). If a linear layer's output is added to the residual stream, its weights are divided
/// by the square root of the number of such layers; `is_output` tells these weights by their names. Experts keep their
/// weights.
template <class IsOutput>
void draw_weights(torch::nn::Module& model, std::int64_t layers, const IsOutput& is_output) {
  const torch::NoGradGuard no_grad;
  const double narrow = 0.02 / std::sqrt(2.0 * static_cast<double>(layers));
  for (auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    if (name.ends_with("_proj")) continue;  // of experts: weights of linear layers end with ".weight"
    if (item.value().dim() >= 2) {
      torch::nn::init::normal_(item.value(), 0, is_output(name) ? narrow : 0.02);
    } else if (name.ends_with(".bias")) {
      torch::nn::init::zeros_(item.value());
    }
  }
}

}  // namespace mn::models
