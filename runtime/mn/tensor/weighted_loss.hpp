/// Losses that carry their weights into the backward pass, and a record of these weights for collective calls in it.
///
/// Ranks minimize the mean Σ nᵣ Lᵣ / Σ nᵣ of their losses, where rank r's loss Lᵣ is a mean over nᵣ samples. If a
/// gradient passes from rank to rank within a backward pass (batch normalization over all ranks, all_gather()), it must
/// carry the weight of its loss. Therefore weighted_loss() multiplies the loss, and thus the gradient, by the weight.
/// The contributions of all ranks are then added without further factors.
///
/// (1) A weighted loss adds a node to autograd's graph. In the backward pass the node runs before the rest of the
///     loss's graph, and records the weight and the number of autograd's task. At the end of the task autograd's engine
///     drops the record. After an exception in a backward pass the record stays; the next pass finds another task's
///     number in the record, and begins a new record.
/// (2) One backward pass at a time runs over an optimizer's parameters, on any threads of the engine. Therefore the
///     record belongs to the process, not to a thread.
/// (3) A record is immutable, because hooks on further threads read the record. Each entry makes a new record.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/loss_unit.hpp>

namespace mn {

/// The weight of a loss: samples / unit.
struct LossWeight {
  double samples = 0;                             // number of samples over which the loss is a mean
  double unit = 1;                                // number of samples with weight 1, read from shared_unit
  c10::intrusive_ptr<LossUnit> shared_unit = {};  // unit of all losses that `owner` weighs in a step
  double agreed_unit = 1;                         // unit that the ranks of `agreed` share; may differ from `unit`
  const void* agreed = nullptr;                   // communicator whose ranks share agreed_unit; null: none
  const void* owner = nullptr;                    // the StepWeights that weighed the loss

  [[nodiscard]] double weight() const { return samples / unit; }
};

/// Returns loss × weight. A backward pass from the result records `weight`. Not collective.
[[nodiscard]] at::Tensor weighted_loss(const at::Tensor& loss, const LossWeight& weight);

/// Returns `loss` unchanged. A backward pass from the result records that the GradScaler `scaler` has scaled the loss.
/// Not collective.
[[nodiscard]] at::Tensor scaled_loss(const at::Tensor& loss, const void* scaler);
struct LossScale {
  const void* scaler = nullptr;
  bool is_second = false;  // the loss had been scaled before
};

struct BackwardRecord {
  int task = -1;                                           // number of autograd's task
  std::vector<LossWeight> losses = {};                     // the weighted losses from which the pass began
  std::vector<LossScale> scales = {};                      // the scaled losses from which the pass began
  std::vector<std::shared_ptr<Communicator>> groups = {};  // communicators of the pass's collective calls
  bool assumed_equal = false;                              // a collective call assumed equal weights on all ranks
};
/// The record of the process's running backward pass; null before the first entry.
[[nodiscard]] std::shared_ptr<const BackwardRecord> backward_record();
/// Call it in a backward pass if nested backward passes are to use the same record, as in recompute_activations().
void begin_backward_record();
/// Drops the record. Called at the end of a backward pass, or after an exception.
void end_backward_record();
/// How many samples are in the weighted losses of one owner.
struct SamplesWeighed {
  double made = 0;   // samples in all losses that weighted_loss() made
  double begun = 0;  // samples in the losses whose backward pass has begun
};
using SamplesByOwner = std::map<const void*, SamplesWeighed>;
[[nodiscard]] SamplesByOwner samples_weighed();
/// Call it if `owner` will weigh no more losses.
void forget_samples_weighed(const void* owner);

/// Call it in a backward pass before a collective call passes gradients between the ranks of `group`. Returns the
/// calling rank's unit divided by the group's unit: multiply gradients by this factor before they are sent, and divide
/// received gradients by it. No value if no weighted loss is in a backward pass.
[[nodiscard]] std::optional<double> pass_gradients_over(const std::shared_ptr<Communicator>& group);
/// Call it if pass_gradients_over() returned no value: records that the collective call assumes equal weights.
void assume_equal_weights();
/// True if the calling rank's weight equals the mean over ranks, up to the precision of float32.
[[nodiscard]] bool weighs_as_mean(double own, double mean) noexcept;
/// Throws ArgumentError: the ranks' weights differ although a collective call has assumed equal weights.
[[noreturn]] void fail_assumed_weights();

}  // namespace mn
