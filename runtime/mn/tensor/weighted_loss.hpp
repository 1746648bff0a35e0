/// Losses that carry their weights into backward, and a record of the weights for collective calls in a backward.
///
/// Ranks minimize the mean Σ nᵣ Lᵣ / Σ nᵣ of their losses. A gradient on its way from rank to rank within a backward
/// (batch normalization over all ranks, all_gather()) must carry the weight of its loss. weighted_loss() puts the
/// weight into the gradient, and contributions of all ranks are added unscaled.
///
/// (1) A weighted loss adds a node to autograd's graph. In backward the node runs before the rest of the loss's graph,
///     and records the weight and the number of autograd's task. At the end of the task autograd's engine drops the
///     record. After an exception in a backward the record stays; the next backward sees another task's number in the
///     record, and begins a new record.
/// (2) One backward at a time runs over an optimizer's parameters, on any threads of the engine: the record belongs to
///     the process.
/// (3) A record is immutable, because hooks read it on other threads: each entry makes a new record.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/loss_unit.hpp>

namespace mn {

/// The weight of a loss.
struct LossWeight {
  double samples = 0;  // number of samples in the loss's mean
  double unit = 1;     // number of samples with weight 1; from shared_unit when this object was made
  c10::intrusive_ptr<LossUnit> shared_unit = {};  // unit of all losses that the owner weighs in a step
  double agreed_unit = 1;        // the unit that the ranks of `agreed` share; `unit` may differ on this rank
  const void* agreed = nullptr;  // the communicator whose ranks share agreed_unit; null: none
  const void* owner = nullptr;   // the StepWeights that weighed the loss

  [[nodiscard]] double weight() const { return samples / unit; }
};

/// Returns loss × weight. A backward from the result records `weight`. Local.
[[nodiscard]] at::Tensor weighted_loss(const at::Tensor& loss, const LossWeight& weight);

/// Returns `loss`; the backward of the result records the GradScaler `scaler`. Local.
[[nodiscard]] at::Tensor scaled_loss(const at::Tensor& loss, const void* scaler);
/// A scaled loss of a backward.
struct LossScale {
  const void* scaler = nullptr;
  bool is_second = false;  // the loss had a scale already
};

/// The state of one backward.
struct BackwardRecord {
  int task = -1;                                           // the engine's task
  std::vector<LossWeight> losses = {};                     // the weighted losses that the backward began at
  std::vector<LossScale> scales = {};                      // the scaled losses that the backward began at
  std::vector<std::shared_ptr<Communicator>> groups = {};  // communicators of the backward's collective calls
  bool assumed_equal = false;                              // a collective call assumed equal weights on all ranks
};
/// The record of this process's running backward; null before the first entry. Later entries make new records.
[[nodiscard]] std::shared_ptr<const BackwardRecord> backward_record();
/// Call it in a backward: nested backwards, as in recompute_activations(), then share the record.
void begin_backward_record();
/// Drops the record, at the end of a backward or after an exception.
void end_backward_record();
/// Sums of samples over the weighted losses of one owner.
struct SamplesWeighed {
  double made = 0;   // in losses made by weighted_loss()
  double begun = 0;  // in losses whose backward has begun
};
/// The sums of this process, by LossWeight::owner.
using SamplesByOwner = std::map<const void*, SamplesWeighed>;
[[nodiscard]] SamplesByOwner samples_weighed();
/// Drops the sums of an owner that weighs no more losses.
void forget_samples_weighed(const void* owner);

/// Call it in a backward before a collective call passes gradients over `group`. Returns this rank's unit divided by
/// the group's: multiply sent gradients by it, and divide received gradients. No value if no weighted backward runs.
[[nodiscard]] std::optional<double> pass_gradients_over(const std::shared_ptr<Communicator>& group);
/// Call it after pass_gradients_over() without a value: the collective call assumes equal weights on all ranks.
void assume_equal_weights();
/// True if this rank's weight equals the mean over ranks, to the precision of float32.
[[nodiscard]] bool weighs_as_mean(double own, double mean) noexcept;
/// Throws ArgumentError: the weights differ, but a collective call assumed equal weights.
[[noreturn]] void fail_assumed_weights();

}  // namespace mn
