/// Losses that carry their weight into backward, and what a collective call in a backward can know of the weights.
///
/// Ranks minimize the mean Σ nᵣ Lᵣ / Σ nᵣ of their losses. A gradient that passes from rank to rank within a backward
/// (batch normalization over all ranks, all_gather()) must carry the weight of the loss that it comes from. After a
/// weighted_loss() it does: what other ranks send is added as it is.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// How a loss was weighed.
struct LossWeight {
  double samples = 0;            // that its mean is over
  double unit = 1;               // samples of weight 1
  double agreed_unit = 1;        // of the ranks of a communicator; `unit` may be this rank's own all the same
  const void* agreed = nullptr;  // that communicator; null: nobody has agreed on a unit

  [[nodiscard]] double weight() const { return samples / unit; }
};

/// loss × weight. The backward that begins at the result is a weighted one. Local.
[[nodiscard]] at::Tensor weighted_loss(const at::Tensor& loss, const LossWeight& weight);

/// What one backward has come to so far.
struct BackwardRecord {
  int task = -1;                                           // the engine's
  std::vector<LossWeight> losses = {};                     // the weighted ones that it began at
  std::vector<std::shared_ptr<Communicator>> groups = {};  // over which collective calls have passed its gradients
  bool assumed_equal = false;                              // one of those calls took all ranks to weigh the same
};
/// Of the backward that runs, in this process; null before its first entry. What comes later is in another record.
[[nodiscard]] std::shared_ptr<const BackwardRecord> backward_record();
/// From a backward: backwards inside it, as recompute_activations() has, are recorded with it.
void begin_backward_record();
/// No backward runs: for after one that threw.
void end_backward_record();
/// Samples of all weighted losses of this process so far.
struct SamplesWeighed {
  double made = 0;   // by weighted_loss()
  double begun = 0;  // at which a backward began
};
[[nodiscard]] SamplesWeighed samples_weighed();

/// From a backward: a collective call passes gradients over `group`. Returns this rank's unit over the group's: what it
/// sends is to be multiplied by that, and what it gets divided. No value if no weighted backward runs.
[[nodiscard]] std::optional<double> pass_gradients_over(const std::shared_ptr<Communicator>& group);
/// After pass_gradients_over() without a value: the call takes all ranks to weigh the same.
void assume_equal_weights();
/// Whether a rank weighs as the mean over ranks does, which may have traveled as float32.
[[nodiscard]] bool weighs_as_mean(double own, double mean) noexcept;
/// Throws ArgumentError: the ranks do not weigh what such a call assumed.
[[noreturn]] void fail_assumed_weights();

}  // namespace mn
