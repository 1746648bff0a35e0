/// How and when gradients become their mean over ranks: at the step, during backward, or one step late.
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

/// Holds the gradients of a list of parameters between clear() and reduce(). Every rank makes the same calls in the
/// same order.
class GradientReduction {
 public:
  /// Gradients stay with their parameters, in memory of their own.
  virtual ~GradientReduction() = default;
  GradientReduction(const GradientReduction&) = delete;
  GradientReduction& operator=(const GradientReduction&) = delete;

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return gradients_->parameters(); }
  /// Where they lie.
  [[nodiscard]] GradientBuffer& gradients() noexcept { return *gradients_; }
  [[nodiscard]] const GradientBuffer& gradients() const noexcept { return *gradients_; }
  /// Collective, the same on every rank, and not within backward: the other parameters are frozen, and cost nothing.
  virtual void train_only(const std::vector<bool>& parameters) { gradients_->train_only(parameters); }
  /// Every gradient becomes None.
  virtual void clear() { gradients_->clear(); }
  /// Promises that one backward follows and then reduce() with that factor, with nothing between them that changes
  /// gradients. Local.
  virtual void announce(StepPromise::Weight /*weight*/) {}
  /// Local. Whether gradients of an announced step are no longer this rank's own.
  [[nodiscard]] virtual bool has_given_away() const { return false; }
  /// Local, before reduce(): throws UsageError if this rank has broken the promise and others have relied on it.
  virtual void check_promise(const StepWeight& /*weight*/) const {}
  /// Makes the gradients the mean over ranks: Σ factorᵣ gᵣ / Σ divisorᵣ. `has_fault`: this rank has found one, of which
  /// all ranks learn.
  [[nodiscard]] virtual ReductionResult reduce(const StepWeight& weight, bool has_fault) = 0;
  /// The mean that reduce() left is applied: the residuals of its compression are kept.
  virtual void commit() { averager_->commit(); }
  /// Makes the gradients a mean that reduce() has not yielded yet, if there is one.
  [[nodiscard]] virtual ReductionResult flush() { return {}; }
  /// Waits for what reduce() has enqueued on a device, and throws what went wrong in it.
  virtual void finish() {}
  /// Whether it reduces the next step as it did the last one: nothing is left to be learned or tried. The same on all
  /// ranks.
  [[nodiscard]] virtual bool is_settled() const { return true; }
  /// A CUDA graph that holds a reduction was launched on the current stream: its errors are watched for.
  virtual void watch_graph() {}
  /// While `token` lives, a backward only accumulates: nothing is sent before reduce().
  void pause_while(std::weak_ptr<const void> token) noexcept { pause_ = std::move(token); }

  /// Counts bytes, and keeps the residuals of compression.
  [[nodiscard]] GradientAverager& averager() noexcept { return *averager_; }
  /// Bytes of gradients that this rank has passed to collectives.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept {
    return averager_->bytes_sent() + gradients_->sparse().bytes_sent();
  }

 protected:
  /// `averager` is shared with the tasks of a communication thread. The derived class makes the buffer.
  GradientReduction(std::shared_ptr<Communicator> comm, std::shared_ptr<GradientAverager> averager)
      : comm_(std::move(comm)), averager_(std::move(averager)) {}
  [[nodiscard]] bool paused() const noexcept { return !pause_.expired(); }

  std::shared_ptr<Communicator> comm_;
  std::optional<BackgroundReducer> background_;  // whose communicator has the buffer's memory; no value: comm_ has it
  std::optional<GradientBuffer> gradients_;

 private:
  std::shared_ptr<GradientAverager> averager_;
  std::weak_ptr<const void> pause_;
};

}  // namespace mn
