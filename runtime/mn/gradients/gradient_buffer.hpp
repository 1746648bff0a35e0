/// The gradients of a list of parameters in one flat buffer, from the backward that makes them to the reduced mean.
///
/// A backward that finds no gradient makes one of its own. A hook copies it into the buffer at once, while the cache
/// still holds it, and the parameter's gradient is a view of the buffer from then on: no zeroing pass is needed.
/// (1) A gradient is None, the buffer's view, or a foreign tensor (with a graph, set by hand); collect() copies the
///     foreign ones in. Sparse ones stay outside (sparse_gradients.hpp). The buffer has no room for those of parameters
///     that are known for them when it is made.
/// (2) Every rank learns which gradients the others have (StepAgreement), so that all update the same parameters.
/// (3) A gradient that the program keeps when its parameter has none any more (after zero_grad()) keeps its values:
///     before a new one takes its memory, the kept one moves out (FlatBuffer::let_go()). So does every gradient when
///     the buffer goes.
/// Cost of a step: one copy of each gradient, and one pass more on a rank whose weight is not 1. Memory: that of the
/// gradients, and while backward runs the one that it has just made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/gradients/gradient_watch.hpp>
#include <mn/gradients/ready_hooks.hpp>
#include <mn/gradients/sparse_gradients.hpp>
#include <mn/gradients/step_agreement.hpp>
#include <mn/tensor/flat_buffer.hpp>

namespace mn {

/// What a reduction has found; the same on all ranks but for `misweighed`.
struct ReductionResult {
  bool has_mean = false;    ///< the gradients are the mean now; false: all weights are 0, or none was under way
  bool any_fault = false;   ///< a rank had found a fault, or may be misweighed
  bool misweighed = false;  ///< this rank weighs otherwise than the mean, although its backward took all to be equal
};

class GradientBuffer {
 public:
  /// Collective. Gradients that exist already count as this step's. `comm`, on whose device the parameters are, must
  /// outlive this object. `noted` is that of the watch of the same parameters' buffer before, if there was one.
  GradientBuffer(std::vector<at::Tensor> parameters, SparseGradients::Known sparse, Communicator& comm,
                 GradientWatch::Depth watch, std::span<const std::size_t> order = {}, DeviceSamples::Noted noted = {});

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] const SparseGradients& sparse() const noexcept { return sparse_; }
  /// Whether the buffer has no room for gradient i.
  [[nodiscard]] bool is_outside(std::size_t i) const { return outside_[i]; }
  /// Whether it has room for gradients that have turned out to be sparse.
  [[nodiscard]] bool is_too_large() const { return outside_ != sparse_.known(); }
  [[nodiscard]] FlatBuffer& flat() noexcept { return *flat_; }
  [[nodiscard]] const FlatBuffer& flat() const noexcept { return *flat_; }
  /// What buffers of the same layout are made for.
  [[nodiscard]] std::vector<at::Tensor> inside() const { return without_sparse(parameters_, outside_); }
  /// For tasks that outlive this object.
  [[nodiscard]] const std::shared_ptr<FlatBuffer>& shared_flat() noexcept { return flat_; }
  /// Called by the gradients' hooks.
  [[nodiscard]] GradientWatch& watch() noexcept { return *watch_; }
  [[nodiscard]] const GradientWatch& watch() const noexcept { return *watch_; }

  /// The first parameter whose gradient another living buffer takes, too.
  [[nodiscard]] std::optional<std::size_t> taken_twice() const { return hooks_->moved_twice(); }
  /// The others are frozen: they are neither sent nor touched. Call between steps, as on every other rank.
  void train_only(std::vector<bool> parameters);
  [[nodiscard]] bool is_trained(std::size_t i) const { return is_trained_[i]; }

  /// Every gradient becomes None.
  void clear();
  /// Multiplies the gradients, as this rank means to: the watch sees no change.
  void scale(double factor);

  /// Records that a backward has finished gradient i. False if it was ready before (a second backward) or is not the
  /// buffer's view: then nothing is recorded. Gradients outside and of frozen parameters are always ready.
  bool mark_ready(std::size_t i);
  [[nodiscard]] bool is_ready(std::size_t i) const {
    return is_outside(i) || !is_trained_[i] || ready_version_[i].has_value();
  }
  /// True if gradient i was marked ready and still is the same tensor with the same version: torch has seen no write.
  /// Also of a frozen parameter.
  [[nodiscard]] bool unchanged_since_ready(std::size_t i) const;
  /// No gradient is ready.
  void forget_ready();

  /// Multiplies gradient i, which is ready, by the factor that collect() will get, which then leaves it alone.
  void weigh_early(std::size_t i, double factor);
  [[nodiscard]] bool weighed_early() const noexcept { return weighed_early_; }

  /// Makes the buffer ready to be reduced: copies foreign gradients in, zeros where there are none, multiplies by the
  /// weight's factor if it is not 1, and fills the tail. Returns what this rank has to say.
  [[nodiscard]] StepAgreement collect(const StepWeight& weight, const StepAgreement::Signals& signals = {});

  /// Collective. Call after `reduced` (this buffer, or another of the same layout) became the mean over ranks of what
  /// collect() left, and `agreement` is what they agreed on. Gradients become the weighted mean, as views of `reduced`
  /// or sparse, and None where no rank has one.
  [[nodiscard]] ReductionResult finish(FlatBuffer& reduced, const StepAgreement& agreement);

 private:
  void collect_one(std::size_t i, StepAgreement& own);
  void multiply(double factor);

  std::vector<at::Tensor> parameters_;
  SparseGradients sparse_;
  SparseGradients::Known outside_;  // those that sparse_ knew at first
  std::shared_ptr<FlatBuffer> flat_;
  std::vector<bool> is_trained_;
  std::vector<std::optional<std::uint32_t>> ready_version_;  // [parameters] of the view when it was marked
  bool weighed_early_ = false;                               // all that are ready are
  std::shared_ptr<GradientWatch> watch_;
  std::unique_ptr<ReadyHooks> hooks_;  // they share flat_ and watch_, so this object can move
};

}  // namespace mn
