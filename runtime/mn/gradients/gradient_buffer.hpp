/// Holds the gradients of a list of parameters in one flat buffer, from the backward that makes the gradients to their
/// mean over ranks.
///
/// If a parameter has no gradient, backward makes a new tensor for the gradient. This tensor's elements then move into
/// the buffer (gradient_intake.hpp). Because backward does not add to the buffer, the buffer need not be zeroed first.
/// (1) The gradient of a parameter is None, or a view of the buffer, or another tensor: one with an autograd graph, or
///     one that the program has set. collect() copies such another tensor into the buffer. Sparse gradients stay
///     outside (sparse_gradients.hpp). The buffer has no room for parameters that were known as sparse when it was
///     made.
/// (2) Every rank learns which gradients exist on any rank (StepAgreement); therefore all ranks update the same
///     parameters.
/// (3) If the program keeps a gradient beyond zero_grad(), the kept tensor keeps its values: it gets memory of its own
///     before a new gradient overwrites the buffer (FlatBuffer::let_go()). When the buffer is destroyed, all gradients
///     get memory of their own.
/// (4) If there is only one rank, gradients need not move. The buffer is then empty, and gradients stay in the tensors
///     that backward has made.
/// Cost of a step: one copy of each gradient. If the rank's weight is not 1, also a pass over the buffer. Memory: the
/// gradients, and during backward the gradients that wait to move. If gradients do not move, they are neither copied
/// nor kept twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
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

/// The result of a reduction. All members except `misweighed` are equal on all ranks.
struct ReductionResult {
  bool has_mean = false;     ///< the gradients are the mean now; false: all weights are 0, or no mean was under way
  bool any_fault = false;    ///< a rank has found a fault, or may be misweighed
  bool set_changes = false;  ///< a rank changes its parameter set
  double divisor = 0;        ///< mean over ranks of StepWeight::divisor
  bool misweighed = false;   ///< this rank's weight is not the mean weight, although its backward assumed equal weights
};

class GradientBuffer {
 public:
  /// Collective. Gradients that exist already count as gradients of the coming step. The parameters are on the device
  /// of `comm`, and `comm` must outlive the object. If these parameters had an earlier buffer, `note` is the
  /// change_note() of that buffer's watch. If `moves` is false, gradients stay in the tensors that backward makes; this
  /// is allowed only if there is a single rank (4).
  GradientBuffer(std::vector<at::Tensor> parameters, SparseGradients::Flags sparse, Communicator& comm,
                 GradientWatch::Depth watch, std::span<const std::size_t> order = {},
                 DeviceSamples::ChangeNote note = {}, bool moves = true);

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] const SparseGradients& sparse() const noexcept { return sparse_; }
  /// True if the buffer has no room for gradient i.
  [[nodiscard]] bool is_outside(std::size_t i) const { return outside_[i]; }
  /// True if the buffer has room for parameters whose gradients have turned out to be sparse. Such parameters need no
  /// room.
  [[nodiscard]] bool is_too_large() const { return moves_ && outside_ != sparse_.flags(); }
  [[nodiscard]] FlatBuffer& flat() noexcept { return *flat_; }
  [[nodiscard]] const FlatBuffer& flat() const noexcept { return *flat_; }
  /// Returns tensors with the shapes of this buffer's gradients. A second FlatBuffer made from them has the same
  /// layout.
  [[nodiscard]] std::vector<at::Tensor> inside() const { return without_sparse(parameters_, outside_); }
  /// The buffer, shared with tasks that may outlive the object.
  [[nodiscard]] const std::shared_ptr<FlatBuffer>& shared_flat() noexcept { return flat_; }
  /// The object that notices if the program changes these gradients.
  [[nodiscard]] GradientWatch& watch() noexcept { return *watch_; }
  [[nodiscard]] const GradientWatch& watch() const noexcept { return *watch_; }

  /// Freezes each parameter whose flag is false: its gradient is neither sent nor changed. Call it between steps, with
  /// the same flags on all ranks.
  void train_only(std::vector<bool> parameters);
  [[nodiscard]] bool is_trained(std::size_t i) const { return is_trained_[i]; }
  /// True if the program has frozen or unfrozen a parameter since train_only().
  [[nodiscard]] bool set_changes() const;
  /// Makes the next collect() tell all ranks that the calling rank has a new parameter set.
  void announce_set_change() noexcept { announces_change_ = true; }
  /// Returns whether the present step tells all ranks of a new parameter set. A second call does not repeat the
  /// announcement.
  [[nodiscard]] bool take_set_change() { return std::exchange(announces_change_, false) || set_changes(); }

  /// Moves the waiting gradients into the buffer.
  void take_waiting() { intake_->flush(); }
  /// Sets every gradient to None.
  void clear();
  /// Multiplies the gradients by `factor`. The watch does not report this multiplication as a change.
  void scale(double factor);

  /// Notes that backward has finished gradient i, which then is ready. Returns false and notes nothing if the gradient
  /// was ready before (a second backward) or is not the buffer's view. Gradients outside the buffer and gradients of
  /// frozen parameters are always ready.
  bool mark_ready(std::size_t i);
  [[nodiscard]] bool is_ready(std::size_t i) const {
    return is_outside(i) || !is_trained_[i] || ready_version_[i].has_value();
  }
  /// True if gradient i is still the same tensor as at mark_ready(), and torch has counted no write to it since then.
  /// Also true if gradient i is outside the buffer, or parameter i is frozen.
  [[nodiscard]] bool unchanged_since_ready(std::size_t i) const;
  /// Forgets all calls of mark_ready(): from now on no gradient in the buffer is ready.
  void forget_ready();

  /// Multiplies gradient i, which must be ready, by `factor`. collect() then does not multiply gradient i again.
  /// `factor` must be the product of the weight's factor and the share that collect() will get.
  void weigh_early(std::size_t i, double factor);
  [[nodiscard]] bool weighed_early() const noexcept { return weighed_early_; }

  /// Prepares the buffer for the reduction. First copies gradients that lie elsewhere into the buffer, and writes zeros
  /// for missing gradients. Then multiplies all gradients by the weight's factor and by `share`, except those that
  /// weigh_early() has multiplied. On CPUs also writes the calling rank's weight and flags behind the gradients.
  /// Returns this rank's weight and flags.
  [[nodiscard]] StepAgreement collect(const StepWeight& weight, const StepAgreement::Signals& signals = {},
                                      double share = 1);

  /// Collective. Ends a reduction. `reduced` is this buffer or a copy of it, and holds the mean over ranks of the
  /// collected gradients. The ranks have agreed on `agreement`. The parameters' gradients become the weighted mean:
  /// views of `reduced`, or sparse tensors. If no rank has a gradient of a parameter, its gradient becomes None.
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
  std::unique_ptr<ReadyHooks> hooks_;  // the hooks refer to intake_ only, because the object can move
  std::unique_ptr<UnitFollower> unit_follower_;
};

}  // namespace mn
