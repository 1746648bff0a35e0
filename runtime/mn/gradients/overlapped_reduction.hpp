/// Reduces gradients while backward continues.
///
/// Gradients lie in buckets, in the order in which backward finishes them (Li et al. 2020, PyTorch Distributed,
/// arXiv:2006.15704). When the last gradient of a bucket is there, the bucket is reduced in the background: in place if
/// the step was announced, else as a copy. At the step only the buckets that are still under way cost time.
/// (1) Buckets are submitted in the plan's order, the same on every rank; a bucket that is complete early waits for the
///     ones before it. All ranks so make the same collective calls in the same order.
/// (2) Without a promise this rank's own gradients stay as they are until the step. What a copy could not foresee - a
///     second backward, another factor, a gradient changed by hand - is found at the step ("stale"); all ranks learn of
///     it, and everything is reduced again. A gradient that the last step made in several parts (a block that
///     recompute_activations() runs several times, or several backwards) is there with the last of as many.
/// (3) Copies are complete before backward returns, so a write to gradients after it, such as a second backward, need
///     not wait.
/// (4) A step whose promise binds (step_promise.hpp) needs no copy: its buckets are reduced where they lie, and a
///     broken promise throws UsageError.
/// (5) The buffer for copies comes after the first step in which a rank wanted one. Until then nothing is sent early
///     without a promise.
/// (6) The order that rank 0 saw in the first step becomes the order in memory, at the zero_grad() that follows, when
///     there are no gradients that would have to move. The first steps also try bucket sizes (bucket_tuner.hpp).
///     Deterministic options switch both off.
/// The result is the direct reduction's, bit for bit on backends that sum in rank order.
/// Cost of a step: one collective for each bucket; without a promise a copy of the gradients too, and twice that if
/// stale. Memory: that of the gradients, twice that without a promise. A CUDA graph can hold a step once is_settled().
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <mn/gradients/background_reducer.hpp>
#include <mn/gradients/bucket.hpp>
#include <mn/gradients/bucket_tuner.hpp>
#include <mn/gradients/gradient_reduction.hpp>
#include <mn/gradients/optimizer_options.hpp>
#include <mn/gradients/ready_hooks.hpp>
#include <mn/gradients/step_promise.hpp>

namespace mn {

class OverlappedReduction : public GradientReduction {
 public:
  OverlappedReduction(std::vector<at::Tensor> parameters, const SparseGradients::Known& sparse,
                      std::shared_ptr<Communicator> comm, std::shared_ptr<GradientAverager> averager,
                      GradientWatch::Depth watch, const OptimizerOptions& options);
  ~OverlappedReduction() override;

  void train_only(const std::vector<bool>& parameters) override;
  void clear() override;
  void announce(StepPromise::Weight weight) override;
  bool has_given_away() const override { return in_place_; }
  void check_promise(const StepWeight& weight) const override {
    promise_.check(weight, *gradients_, in_place_ ? end_of(launched_ - 1) : 0);
  }
  ReductionResult reduce(const StepWeight& weight, bool has_fault) override;
  void finish() override { background_->finish(); }
  bool is_settled() const override { return !learning_ && !order_to_come_ && tuner_.is_done(); }
  void watch_graph() override;

 private:
  void lay_out(std::vector<at::Tensor> parameters, const SparseGradients::Known& sparse,
               std::vector<std::size_t> order);
  void make_copy();
  void plan(std::size_t bucket_bytes);
  void forget_gradients();
  void ready(std::size_t i);
  void look_at_stream();
  [[nodiscard]] std::optional<double> binding() const;
  [[nodiscard]] bool may_launch();
  void launch_early();
  void launch(std::size_t bucket, double factor);
  void submit_messages(std::size_t first, std::size_t count, double factor);
  [[nodiscard]] bool makes_copies() const noexcept { return shared_->copy && !in_place_; }
  [[nodiscard]] std::size_t end_of(std::size_t bucket) const { return buckets_[bucket].first + buckets_[bucket].count; }
  void finish_copies();
  [[nodiscard]] bool is_stale(const StepWeight& weight) const;
  void end_step(const StepAgreement& agreement);
  void learn_order();
  void drain();

  /// What reductions use, and keep alive.
  struct Shared {
    std::shared_ptr<FlatBuffer> own;        // this rank's gradients
    std::unique_ptr<FlatBuffer> copy = {};  // null until a rank wants it (5)
    std::shared_ptr<GradientAverager> averager;
  };
  /// Messages [first, first + count) under way. The background copies them, or who cannot wait for it.
  struct Part {
    void copy();
    void reduce(Communicator& comm);

    std::shared_ptr<Shared> shared;
    std::size_t first;
    std::size_t count;
    double factor;   // that the copy is multiplied by
    double divisor;  // StepWeight::divisor
    bool is_copy;    // else in place
    std::once_flag copied = {};
  };

  std::optional<ReadyHooks> hooks_;
  GradientWatch::Depth watch_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<Part>> parts_;  // submitted since the last finish_copies()
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;      // [parameters]
  std::vector<std::size_t> missing_;        // [buckets] gradients that are not there yet
  std::vector<int> parts_seen_;             // [parameters] of its gradient in this step
  std::vector<int> parts_expected_;         // [parameters] as many as in the last step that made it
  std::vector<std::size_t> order_seen_;     // parameters as they became ready in this step
  std::size_t launched_ = 0;                // buckets submitted in this step: the first so many
  std::optional<c10::Stream> hook_stream_;  // on a GPU: of this step's gradients
  bool streams_differ_ = false;
  StepPromise promise_;
  bool is_first_backward_ = true;  // what was promised has no gradients of before
  StepWeight weight_;              // of what is launched
  bool in_place_ = false;          // buckets were launched early in this step, and are not copies
  bool disturbed_ = false;         // a gradient came that early copies do not have
  bool wants_copy_ = false;        // a bucket could have been launched
  bool learning_ = true;
  std::vector<bool> is_trained_;                           // [parameters]
  std::vector<std::size_t> order_;                         // [parameters] in memory
  std::optional<std::vector<std::size_t>> order_to_come_;  // (6): rank 0's, until the next zero_grad()
  BucketTuner tuner_;
};

}  // namespace mn
