/// The loss of language models and other classifiers with many classes.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mn {

/// How token_loss() combines the losses of the rows.
enum class TokenLossReduction : std::uint8_t {
  kMean,  ///< mean of the rows that count, by their weights
  kSum,   ///< sum of losses × weights
  kNone,  ///< losses × weights, in the shape of the targets
};

/// Options of token_loss().
struct TokenLossOptions {
  /// A row with this target does not count.
  std::int64_t ignore_index = -100;
  /// The label smoothing ε, from 0 to 1: each of the V classes gets the target probability ε/V, the target 1 − ε more.
  double label_smoothing = 0;
  /// Adds z_loss × (log Σ exp(logits))² to each loss (Chowdhery et al. 2022, PaLM, arXiv:2204.02311).
  double z_loss = 0;
  /// Weight of each row, in the shape of the targets; undefined: all 1. A row of weight 0 does not count.
  at::Tensor weights = {};
  /// How the losses of the rows are combined.
  TokenLossReduction reduction = TokenLossReduction::kMean;
  /// If true, the gradient overwrites the logits, and the caller must not read the logits afterwards.
  bool overwrite_logits = false;
};

/// Returns the loss −log softmax(logits)[target] of rows of V logits, as torch's cross_entropy of the logits in float32
/// does (in float64 for float64 logits). `logits` are (…, V) of any float type, and `targets` (…) integers.
///
/// The gradient is stored in the logits' type. On a GPU, loss and gradient are computed in one pass, without a float32
/// copy of the logits; on a CPU, by libtorch's operators, with float32 copies of a few rows at a time. With
/// `overwrite_logits`, the gradient takes the memory of the logits, and on a GPU a 16-bit logit costs 4 bytes of memory
/// traffic; without it, the logits are copied first. If the loss is multiplied by a factor other than 1 before
/// backward, the gradient is read and written once more.
///
/// If no row counts, the loss is 0 (torch's is NaN). The result can be differentiated only once. Throws ArgumentError
/// for wrong shapes, a label smoothing outside of [0, 1], leaves of autograd's graph to be overwritten, and, on a CPU,
/// for a target outside of [0, V); on a GPU such a target makes the loss NaN. Local: sends nothing to other ranks.
[[nodiscard]] at::Tensor token_loss(const at::Tensor& logits, const at::Tensor& targets,
                                    const TokenLossOptions& options = {});

}  // namespace mn
