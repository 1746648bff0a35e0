/// Losses that carry their weight into backward, and what a collective call in a backward can know of the weights.
///
/// Ranks minimize the mean Σ wᵣ Lᵣ / Σ wᵣ of their losses. A gradient that passes from rank to rank within a backward
/// (batch normalization over all ranks, all_gather()) must carry the weight of the loss that it comes from. After a
/// weighted_loss() it does: what other ranks send is added as it is.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// How a loss was weighed.
struct LossWeight {
  double weight = 1;
  double samples = 0;             // that the weight stands for
  const void* weigher = nullptr;  // an optimizer, whose weights of a sample may differ from another's
};

/// loss × weight. The backward that begins at the result is a weighted one. Local.
[[nodiscard]] at::Tensor weighted_loss(const at::Tensor& loss, const LossWeight& weight);
/// Whether a weighted backward runs, of this process. Also true in a backward inside it, as recompute_activations()
/// has.
[[nodiscard]] bool in_weighted_backward();
/// No weighted backward runs: for after one that threw.
void end_weighted_backward();

/// The weighted losses that one backward has begun at so far, which may become more until it ends.
using WeightedBackward = std::shared_ptr<const std::vector<LossWeight>>;
/// The one that runs; null: none does.
[[nodiscard]] WeightedBackward weighted_backward();

/// From a backward that is not weighted: a collective call in it took all ranks to weigh the same.
void assume_equal_weights() noexcept;
/// Whether one did since the last call.
[[nodiscard]] bool take_assumed_equal_weights() noexcept;
/// Whether a rank weighs as the mean over ranks does, which may have traveled as float32.
[[nodiscard]] bool weighs_as_mean(double own, double mean) noexcept;
/// Throws ArgumentError: the ranks do not weigh what such a call assumed.
[[noreturn]] void fail_assumed_weights();

}  // namespace mn
