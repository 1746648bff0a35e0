/// Low-rank adapters (LoRA: Hu et al. 2021, arXiv:2106.09685) for fine-tuning language models, as Hugging Face's PEFT
/// has them.
///
/// An adapter adds (alpha / rank) · B A x to the output of a linear layer, where A is (rank, inputs) and B (outputs,
/// rank). A training with adapters changes A and B alone. B is 0 at first, so that the adapters change nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <torch/nn/module.h>

namespace mn::models {

/// The form of the adapters, and which linear layers have one.
struct LoraOptions {
  std::int64_t rank = 8;            ///< rows of A
  double scale = 2;                 ///< factor of B A: PEFT's alpha / rank
  double dropout = 0;               ///< fraction of an adapter's inputs that dropout zeroes in training
  std::vector<std::string> layers;  ///< patterns (matches_layer()); a layer that any of them matches has an adapter
};

/// True if the pattern matches the name of a layer, or an end of the name after a dot.
[[nodiscard]] bool matches_layer(const std::string& pattern, std::string_view name);

/// Adds adapters to the linear layers of a Gpt or Llama whose names match, and freezes all parameters but theirs, which
/// are called NAME.lora_A.weight and NAME.lora_B.weight. Draws A from libtorch's random numbers. Returns the names of
/// the layers. Throws ArgumentError if no layer matches.
std::vector<std::string> add_lora(torch::nn::Module& model, const LoraOptions& options);

/// Adds the adapters' products to the weights of their layers, and removes the adapters from the computation: the model
/// computes the same as before. Needs whole parameters (no --shard parameters).
void merge_lora(torch::nn::Module& model);

/// Returns a module with the adapters alone, under the same names: for save_model() and load_model().
[[nodiscard]] std::shared_ptr<torch::nn::Module> lora_of(const torch::nn::Module& model);

}  // namespace mn::models
