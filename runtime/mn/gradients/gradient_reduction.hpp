/// The interface of reductions, which replace gradients by their mean over ranks. Some derived classes reduce at the
/// step, some during backward, and some one step late.
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

/// Holds the gradients of a list of parameters from clear(), which drops old gradients, to reduce(), which averages
/// over ranks. All ranks must make the same calls in the same order.
class GradientReduction {
 public:
  /// Moves the gradients out of the object's buffer into memory of their own, so that the parameters keep their
  /// gradients.
  virtual ~GradientReduction() = default;
  GradientReduction(const GradientReduction&) = delete;
  GradientReduction& operator=(const GradientReduction&) = delete;

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return gradients_->parameters(); }
  /// The buffer of the parameters' gradients.
  [[nodiscard]] GradientBuffer& gradients() noexcept { return *gradients_; }
  [[nodiscard]] const GradientBuffer& gradients() const noexcept { return *gradients_; }
  /// Collective. Call it outside backward, with the same flags on all ranks. Freezes each parameter whose flag is
  /// false. Frozen parameters cost nothing.
  virtual void train_only(const std::vector<bool>& parameters) { gradients_->train_only(parameters); }
  /// Sets every gradient to None.
  virtual void clear() { gradients_->clear(); }
  /// Local. Multiplies the calling rank's gradients, before the step.
  virtual void scale(double factor) { gradients_->scale(factor); }
  /// Local. Promises that one backward and then reduce() follow, and that the program does not change gradients in
  /// between. `weight` is a function that returns the weight with which reduce() will be called.
  virtual void announce(StepPromise::Weight /*weight*/) {}
  /// Local. True if a step was announced, and ranks may already have overwritten its gradients with their mean.
  [[nodiscard]] virtual bool has_given_away() const { return false; }
  /// Local; call it before reduce(). Throws UsageError if the calling rank has broken a promise (announce()) on which
  /// ranks have already relied.
  virtual void check_promise(const StepWeight& /*weight*/) const {}
  /// Replaces the gradients by their weighted mean over ranks: Σ factorᵣ gᵣ / Σ divisorᵣ, where gᵣ is the gradient of
  /// rank r. If `has_fault` is true, all ranks learn that the calling rank has found a fault.
  [[nodiscard]] virtual ReductionResult reduce(const StepWeight& weight, bool has_fault) = 0;
  /// Call it if the step applies the mean of the last reduce(). With compression, the next step then adds the parts of
  /// the gradients that were not sent.
  virtual void commit() { averager_->commit(); }
  /// With double buffering, if reduce() has not yielded the last mean yet, replaces the gradients by that mean.
  /// Otherwise does nothing.
  [[nodiscard]] virtual ReductionResult flush() { return {}; }
  /// Waits for the work that reduce() has enqueued on a device, and throws errors of that work. Does not wait for
  /// gradients that the calling rank sent during backward, because other ranks may send theirs only at the step.
  virtual void finish() {}
  /// True if the order of gradients in memory and the bucket size will not change any more, so that the next step is
  /// reduced in the same way as the last. The result is the same on all ranks.
  [[nodiscard]] virtual bool is_settled() const { return true; }
  /// Call it after launching a CUDA graph that contains a reduction on the current stream. From then on, errors of that
  /// reduction are noticed.
  virtual void watch_graph() {}
  /// As long as the object behind `token` lives, backward sends no gradients, and reduce() sends all of them.
  void pause_while(std::weak_ptr<const void> token) noexcept { pause_ = std::move(token); }

  /// Returns the object that computes the mean, counts bytes and keeps the residuals of compression.
  [[nodiscard]] GradientAverager& averager() noexcept { return *averager_; }
  /// Bytes of gradients that the calling rank's collective calls have sent.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept {
    return averager_->bytes_sent() + gradients_->sparse().bytes_sent();
  }

 protected:
  /// Tasks on a communication thread share `averager`. The constructor of the derived class must set gradients_.
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
