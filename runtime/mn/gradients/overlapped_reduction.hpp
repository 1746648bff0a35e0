/// Reduces gradients while backward continues.
///
/// Gradients lie in buckets, in the order in which backward finishes them (Li et al. 2020, PyTorch Distributed,
/// arXiv:2006.15704). When a bucket is complete (ready_buckets.hpp), it is reduced in the background: in place if the
/// step was announced, otherwise as a copy (5). The step itself waits only for buckets that are still being reduced.
/// (1) All ranks submit the buckets in the same order; a bucket that is complete early waits for the buckets before it.
///     Therefore all ranks make the same collective calls in the same order.
/// (2) Without a promise a rank's gradients keep their values until the step. If a gradient changes after its copy was
///     sent (by a second backward, a changed factor, or a write of the program), the copy is stale. The step notices
///     this and tells all ranks. All ranks then reduce all gradients again.
/// (3) Copies are complete before backward returns; therefore later writes to gradients need not wait.
/// (4) If the step's promise binds (step_promise.hpp), buckets are reduced in place, without a copy, and a broken
///     promise throws UsageError.
/// (5) In one step no rank reduces in place while another rank sends copies, because the copies may be stale, and
///     gradients reduced in place cannot be reduced again. The choice for all ranks depends on the flags that they
///     exchanged in the last step (step_agreement.hpp). If any rank could send early only as copies, all ranks send
///     copies; the buffer for the copies is made after the first step in which this happens. Otherwise, if any rank had
///     announced the step, ranks reduce in place, and a rank without a promise sends nothing early.
/// (6) In the first step rank 0 notes the order in which its backward finishes the gradients. This order becomes the
///     order in memory at the next zero_grad(), when there are no gradients to move. The first steps also try bucket
///     sizes (bucket_tuner.hpp). OptimizerOptions::deterministic switches off the new order and the trial of sizes.
/// (7) In a step that reduces in place, the kernel that moves gradients into the buffer also divides them by the number
///     of ranks, and NCCL adds them up. In other steps, and for 16-bit gradients, the communicator computes the mean.
/// On backends that add in rank order, the result equals the result of a reduction at the step, bit for bit.
/// Cost of a step: one collective for each bucket; without a promise also a copy of the gradients. If a copy was stale,
/// the step makes all collectives a second time. Memory: the gradients; without a promise twice the gradients. A CUDA
/// graph can hold a step once is_settled() is true.
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
#include <mn/gradients/ready_buckets.hpp>
#include <mn/gradients/ready_hooks.hpp>
#include <mn/gradients/step_promise.hpp>

namespace mn {

class OverlappedReduction : public GradientReduction {
 public:
  OverlappedReduction(std::vector<at::Tensor> parameters, const SparseGradients::Flags& sparse,
                      std::shared_ptr<Communicator> comm, std::shared_ptr<GradientAverager> averager,
                      GradientWatch::Depth watch, const OptimizerOptions& options);
  ~OverlappedReduction() override;

  void train_only(const std::vector<bool>& parameters) override;
  void clear() override;
  void announce(StepPromise::Weight weight) override;
  bool has_given_away() const override { return early_ == Early::kInPlace; }
  void check_promise(const StepWeight& weight) const override {
    promise_.check(weight, *gradients_, has_given_away() ? buckets_.end_of(launched_ - 1) : 0);
  }
  ReductionResult reduce(const StepWeight& weight, bool has_fault) override;
  void finish() override;
  bool is_settled() const override { return !learning_ && !order_to_come_ && tuner_.is_done(); }
  void watch_graph() override;

 private:
  void lay_out(std::vector<at::Tensor> parameters, const SparseGradients::Flags& sparse,
               std::vector<std::size_t> order);
  void make_copy();
  void plan(std::size_t bucket_bytes);
  void forget_gradients();
  void ready(std::size_t i);
  void look_at_stream();
  [[nodiscard]] std::optional<double> binding() const;
  [[nodiscard]] double share() const noexcept { return promises_bind_ ? share_ : 1; }
  [[nodiscard]] bool promises() const noexcept { return is_first_backward_ && promise_.may_bind(); }
  [[nodiscard]] bool may_launch();
  void launch_early();
  void launch(std::size_t bucket, double factor);
  void submit_messages(std::size_t first, std::size_t count, double factor);
  [[nodiscard]] bool makes_copies() const noexcept { return shared_->copy && early_ != Early::kInPlace; }
  void finish_copies();
  void drain();
  [[nodiscard]] bool is_stale(const StepWeight& weight) const;
  void end_step(const StepAgreement& agreement);
  void learn_order();

  /// How the buckets that were sent early in this step are reduced.
  enum class Early {
    kNone,
    kCopies,
    kStaleCopies,  ///< copies, sent or not, differ from the final gradients
    kInPlace,
  };
  /// The memory that reductions use. The memory lives until the last background task has ended.
  struct Shared {
    std::shared_ptr<FlatBuffer> own;        // the calling rank's gradients
    std::unique_ptr<FlatBuffer> copy = {};  // null until a rank needs it (5)
    std::shared_ptr<GradientAverager> averager;
  };
  /// The messages [first, first + count), whose reduction was submitted. If messages are sent as copies, the first call
  /// of copy() makes the copies. The background task calls copy(); the calling rank calls it earlier if it cannot wait
  /// for the task.
  struct Part {
    void copy();
    void reduce(Communicator& comm);

    std::shared_ptr<Shared> shared;
    std::size_t first;
    std::size_t count;
    double factor;   // multiplies the copy
    double divisor;  // StepWeight::divisor
    bool is_copy;    // false: in place
    std::once_flag copied = {};
  };

  std::optional<ReadyHooks> hooks_;
  GradientWatch::Depth watch_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<Part>> parts_;  // submitted since the last finish_copies()
  ReadyBuckets buckets_;
  std::size_t launched_ = 0;                // buckets [0, launched_) are submitted
  std::optional<c10::Stream> hook_stream_;  // on a GPU: stream of this step's gradients
  bool streams_differ_ = false;
  StepPromise promise_;
  bool is_first_backward_ = true;  // no backward ran before announce()
  StepWeight weight_;              // of the launched buckets
  bool promises_bind_ = false;     // no rank sends copies in this step (5)
  double share_ = 1;               // (7): 1 / number of ranks if the calling rank may divide gradients, else 1
  Early early_ = Early::kNone;
  bool wants_copy_ = false;                                // a bucket was complete without a promise
  bool learning_ = true;                                   // the order of the first step is not known yet
  std::vector<bool> is_trained_;                           // [parameters]
  std::vector<std::size_t> order_;                         // [parameters] in memory
  std::optional<std::vector<std::size_t>> order_to_come_;  // (6): rank 0's order, used from the next zero_grad() on
  BucketTuner tuner_;
};

}  // namespace mn
