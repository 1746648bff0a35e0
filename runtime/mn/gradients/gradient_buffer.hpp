/// The gradients of a list of parameters in one flat buffer, from the backward that makes them to the reduced mean.
///
/// If a parameter has no gradient, backward makes a new tensor, which then moves into the buffer (gradient_intake.hpp).
/// Therefore no pass has to write zeros into the buffer.
/// (1) A gradient is None, the buffer's view, or a foreign tensor (with a graph, or set by hand), which collect()
///     copies into the buffer. Sparse gradients stay outside (sparse_gradients.hpp); the buffer has no room for
///     gradients of parameters that were known as sparse when the buffer was made.
/// (2) Every rank learns which gradients exist on any rank (StepAgreement); therefore all ranks update equal
///     parameters.
/// (3) If the program keeps a gradient beyond zero_grad(), the tensor keeps its values: it moves out before a new
///     gradient takes the memory (FlatBuffer::let_go()). All gradients move out when the buffer is destroyed.
/// (4) If there is only one rank, gradients need not move: the buffer is then empty, and gradients stay the tensors
///     that backward has made.
/// Cost of a step: one copy of each gradient, and a pass over the buffer on a rank whose weight is not 1. Memory: the
/// gradients, and those that wait to move during backward. If gradients do not move: no copy and no further memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/gradients/gradient_intake.hpp>
#include <mn/gradients/gradient_watch.hpp>
#include <mn/gradients/ready_hooks.hpp>
#include <mn/gradients/sparse_gradients.hpp>
#include <mn/gradients/step_agreement.hpp>
#include <mn/tensor/flat_buffer.hpp>
#include <mn/tensor/loss_unit.hpp>

namespace mn {

/// The result of a reduction. All members but `misweighed` are equal on all ranks.
struct ReductionResult {
  bool has_mean = false;     ///< the gradients are the mean now; false: all weights are 0, or no mean was under way
  bool any_fault = false;    ///< a rank has found a fault, or may be misweighed
  bool set_changes = false;  ///< a rank changes its parameter set
  bool misweighed = false;   ///< this rank's weight is not the mean weight, although its backward assumed equal weights
};

class GradientBuffer {
 public:
  /// Collective. Gradients that exist already count as gradients of the coming step. The parameters are on the device
  /// of `comm`, which must outlive this object. `note` is the change_note() of the watch of these parameters' earlier
  /// buffer, if there was one. If `moves` is false, gradients stay in the tensors of backward; allowed only if there is
  /// a single rank (4).
  GradientBuffer(std::vector<at::Tensor> parameters, SparseGradients::Flags sparse, Communicator& comm,
                 GradientWatch::Depth watch, std::span<const std::size_t> order = {},
                 DeviceSamples::ChangeNote note = {}, bool moves = true);

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] const SparseGradients& sparse() const noexcept { return sparse_; }
  /// True if the buffer has no room for gradient i.
  [[nodiscard]] bool is_outside(std::size_t i) const { return outside_[i]; }
  /// True if the buffer has room for gradients that have turned out to be sparse, and therefore need no room.
  [[nodiscard]] bool is_too_large() const { return moves_ && outside_ != sparse_.flags(); }
  [[nodiscard]] FlatBuffer& flat() noexcept { return *flat_; }
  [[nodiscard]] const FlatBuffer& flat() const noexcept { return *flat_; }
  /// Returns the tensors from which a second FlatBuffer of the same layout can be made.
  [[nodiscard]] std::vector<at::Tensor> inside() const { return without_sparse(parameters_, outside_); }
  /// The buffer, shared with tasks that may outlive this object.
  [[nodiscard]] const std::shared_ptr<FlatBuffer>& shared_flat() noexcept { return flat_; }
  /// The watch over changes of these gradients.
  [[nodiscard]] GradientWatch& watch() noexcept { return *watch_; }
  [[nodiscard]] const GradientWatch& watch() const noexcept { return *watch_; }

  /// Freezes all parameters whose flag is false: their gradients are neither sent nor touched. Call it between steps,
  /// with equal flags on all ranks.
  void train_only(std::vector<bool> parameters);
  [[nodiscard]] bool is_trained(std::size_t i) const { return is_trained_[i]; }
  /// True if the program has frozen or unfrozen a parameter since train_only().
  [[nodiscard]] bool set_changes() const;
  /// The next collect() tells all ranks of this rank's new parameter set.
  void announce_set_change() noexcept { announces_change_ = true; }

  /// Moves the waiting gradients into the buffer.
  void take_waiting() { intake_->flush(); }
  /// Sets every gradient to None.
  void clear();
  /// Multiplies the gradients by `factor`; the watch counts this as no change.
  void scale(double factor);

  /// Records that a backward has finished gradient i. Returns false and records nothing if the gradient was ready
  /// before (a second backward) or is not the buffer's view. Gradients outside the buffer and gradients of frozen
  /// parameters are always ready.
  bool mark_ready(std::size_t i);
  [[nodiscard]] bool is_ready(std::size_t i) const {
    return is_outside(i) || !is_trained_[i] || ready_version_[i].has_value();
  }
  /// True if gradient i is still the tensor of mark_ready(), and torch has counted no write to the tensor since then.
  /// Also true if parameter i is frozen.
  [[nodiscard]] bool unchanged_since_ready(std::size_t i) const;
  /// From now on no gradient is ready.
  void forget_ready();

  /// Multiplies gradient i, which must be ready, by `factor`; collect() then does not multiply gradient i. `factor` is
  /// the product of the two factors that collect() will get.
  void weigh_early(std::size_t i, double factor);
  [[nodiscard]] bool weighed_early() const noexcept { return weighed_early_; }

  /// Prepares the buffer for the reduction: copies foreign gradients in, writes zeros for missing gradients, multiplies
  /// all gradients by the weight's factor and by `share`, and fills the tail. Does not multiply gradients that
  /// weigh_early() has multiplied. Returns this rank's part of the agreement: weight and flags.
  ///
  [[nodiscard]] StepAgreement collect(const StepWeight& weight, const StepAgreement::Signals& signals = {},
                                      double share = 1);

  /// Collective. Ends a reduction: `reduced` (this buffer or a copy) is the mean over ranks of the collected gradients,
  /// and the ranks have agreed on `agreement`. Gradients become the weighted mean, as views of `reduced` or as sparse
  /// tensors; a gradient that no rank has becomes None.
  [[nodiscard]] ReductionResult finish(FlatBuffer& reduced, const StepAgreement& agreement);

 private:
  bool collect_one(std::size_t i, StepAgreement& own);
  void multiply(double factor);

  std::vector<at::Tensor> parameters_;
  SparseGradients sparse_;
  bool moves_;
  SparseGradients::Flags outside_;  // parameters known as sparse when the buffer was made; all, if gradients stay (4)
  std::shared_ptr<FlatBuffer> flat_;
  std::vector<bool> is_trained_;
  std::vector<std::optional<std::uint32_t>> ready_version_;  // [parameters] version of the view at mark_ready()
  bool weighed_early_ = false;                               // all ready gradients have had weigh_early()
  bool announces_change_ = false;
  std::shared_ptr<GradientWatch> watch_;
  std::shared_ptr<GradientIntake> intake_;
  std::unique_ptr<ReadyHooks> hooks_;  // the hooks refer to intake_ only, because this object can move
  std::unique_ptr<UnitFollower> unit_follower_;
};

}  // namespace mn
