/// The interface of reductions, which make gradients their mean over ranks. Derived classes do so at the step, during
/// backward, or one step late.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/gradients/background_reducer.hpp>
#include <mn/gradients/compression/gradient_averager.hpp>
#include <mn/gradients/gradient_buffer.hpp>
#include <mn/gradients/step_promise.hpp>

namespace mn {

/// Holds the gradients of a list of parameters between clear() and reduce(). All ranks must make the same calls in the
/// same order.
class GradientReduction {
 public:
  /// Moves the gradients out of this object's buffer into memory of their own; they stay the gradients of their
  /// parameters.
  virtual ~GradientReduction() = default;
  GradientReduction(const GradientReduction&) = delete;
  GradientReduction& operator=(const GradientReduction&) = delete;

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return gradients_->parameters(); }
  /// The buffer of the parameters' gradients.
  [[nodiscard]] GradientBuffer& gradients() noexcept { return *gradients_; }
  [[nodiscard]] const GradientBuffer& gradients() const noexcept { return *gradients_; }
  /// Collective. Call it outside backward, with the same flags on all ranks. Freezes the parameters whose flag is
  /// false; frozen parameters cost nothing.
  virtual void train_only(const std::vector<bool>& parameters) { gradients_->train_only(parameters); }
  /// Sets every gradient to None.
  virtual void clear() { gradients_->clear(); }
  /// Local. Promises that one backward and then reduce() follow, with no change of gradients in between. `weight` is a
  /// function that returns the weight which reduce() will get.
  virtual void announce(StepPromise::Weight /*weight*/) {}
  /// Local. True if the ranks may have overwritten gradients of an announced step with their mean.
  [[nodiscard]] virtual bool has_given_away() const { return false; }
  /// Local, before reduce(). Throws UsageError if the calling rank has broken a promise on which ranks have relied.
  virtual void check_promise(const StepWeight& /*weight*/) const {}
  /// Replaces the gradients by their weighted mean over ranks: Σ factorᵣ gᵣ / Σ divisorᵣ. `has_fault` tells all ranks
  /// that the calling rank has found a fault.
  [[nodiscard]] virtual ReductionResult reduce(const StepWeight& weight, bool has_fault) = 0;
  /// Call it if the step applies the mean of the last reduce(). Only then does the next step add the parts of gradients
  /// that compression did not send.
  virtual void commit() { averager_->commit(); }
  /// With double buffering, replaces the gradients by the last mean if reduce() has not yielded it yet. Otherwise does
  /// nothing.
  [[nodiscard]] virtual ReductionResult flush() { return {}; }
  /// Waits for the work that reduce() has enqueued on a device, and throws its errors. Does not wait for gradients that
  /// were sent early, within backward, because other ranks may send theirs only at the step.
  virtual void finish() {}
  /// True if the next step is reduced in the same way as the last step, because the order of gradients and the bucket
  /// size are final. The result is equal on all ranks.
  [[nodiscard]] virtual bool is_settled() const { return true; }
  /// Watches for errors of a CUDA graph that holds a reduction and was just launched on the current stream.
  virtual void watch_graph() {}
  /// While `token` lives, backward sends no gradients; reduce() then sends all gradients.
  void pause_while(std::weak_ptr<const void> token) noexcept { pause_ = std::move(token); }

  /// Returns the object that computes the mean, counts bytes and keeps the residuals of compression.
  [[nodiscard]] GradientAverager& averager() noexcept { return *averager_; }
  /// Bytes of gradients that the calling rank's collective calls have sent.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept {
    return averager_->bytes_sent() + gradients_->sparse().bytes_sent();
  }

 protected:
  /// `averager` is shared with the tasks of a communication thread. The derived class must set gradients_.
  GradientReduction(std::shared_ptr<Communicator> comm, std::shared_ptr<GradientAverager> averager)
      : comm_(std::move(comm)), averager_(std::move(averager)) {}
  [[nodiscard]] bool paused() const noexcept { return !pause_.expired(); }

  std::shared_ptr<Communicator> comm_;
  std::optional<BackgroundReducer> background_;  // if set, its communicator allocates the buffer
  std::optional<GradientBuffer> gradients_;

 private:
  std::shared_ptr<GradientAverager> averager_;
  std::weak_ptr<const void> pause_;
};

}  // namespace mn
