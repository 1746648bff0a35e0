/// Reduces gradients while backward continues.
///
/// Gradients lie in buckets, in the order in which backward finishes them (Li et al. 2020, PyTorch Distributed,
/// arXiv:2006.15704). When the last gradient of a bucket is there, the bucket is copied and the copy is reduced in the
/// background. At the step only the buckets that are still under way cost time.
/// (1) Buckets are submitted in the plan's order, the same on every rank; a bucket that is complete early waits for the
///     ones before it. All ranks so make the same collective calls in the same order.
/// (2) This rank's own gradients stay as they are until the step. Early copies are multiplied by the factor that was
///     announced, else by 1. What an early reduction could not foresee - a second backward, another factor, a gradient
///     changed by hand - is found at the step ("disturbed"); the tail tells all ranks, and everything is reduced again.
///     The result is the direct reduction's, bit for bit on backends that sum in rank order. A gradient that the last
///     step made in several parts (a block that recompute_activations() runs several times, or several backwards) is
///     there with the last of as many.
/// (3) Copies are complete before backward returns, so a write to gradients after it, such as a second backward, need
///     not wait.
/// (4) After the first step the order that rank 0 saw becomes the order in memory; the first steps also try bucket
///     sizes (bucket_tuner.hpp). Deterministic options switch both off.
/// Cost of a step: one copy of the gradients and one collective for each bucket and the tail; twice that if disturbed.
/// Memory: two more buffers of the gradients' size. Not for a backward inside a backward, nor for one that a CUDA graph
/// captures.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <mn/comm/bucket.hpp>
#include <mn/gradients/background_reducer.hpp>
#include <mn/gradients/bucket_tuner.hpp>
#include <mn/gradients/gradient_reduction.hpp>
#include <mn/gradients/optimizer_options.hpp>
#include <mn/gradients/ready_hooks.hpp>

namespace mn {

class OverlappedReduction : public GradientReduction {
 public:
  OverlappedReduction(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm,
                      std::shared_ptr<GradientAverager> averager, GradientWatch::Depth watch,
                      const OptimizerOptions& options);
  ~OverlappedReduction() override;

  const GradientBuffer& gradients() const noexcept override { return gradients_; }
  void clear() override;
  void scale(double factor) override { gradients_.scale(factor); }
  void announce(double factor) override { early_factor_ = factor; }
  bool reduce(double weight, double factor) override;
  void release() noexcept override { gradients_.release(); }

 private:
  void lay_out(std::vector<at::Tensor> parameters, std::vector<std::size_t> order);
  void plan(std::size_t bucket_bytes);
  void forget_gradients();
  void ready(std::size_t i);
  void check_stream();
  void launch(std::size_t bucket, double factor);
  void submit_messages(std::size_t first, std::size_t count, double factor);
  void count_parts();
  void finish_copies();
  [[nodiscard]] bool changed_since_launch() const;
  void end_step();
  void learn_order();

  /// What reductions use, and keep alive.
  struct Shared {
    FlatBuffer own;   // this rank's gradients
    FlatBuffer mean;  // copied from `own`, then reduced
    std::shared_ptr<GradientAverager> averager;
  };
  /// Messages [first, first + count) under way. The background copies them, or who cannot wait for it.
  struct Part {
    void copy();
    void reduce(Communicator& comm);

    std::shared_ptr<Shared> shared;
    std::size_t first;
    std::size_t count;
    double factor;  // of the copy
    std::once_flag copied = {};
  };

  std::shared_ptr<Communicator> comm_;
  std::optional<ReadyHooks> hooks_;
  BackgroundReducer background_;
  GradientWatch::Depth watch_;
  GradientBuffer gradients_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<Part>> parts_;  // submitted since the last finish_copies()
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;      // [parameters]
  std::vector<std::size_t> missing_;        // [buckets] gradients that are not there yet
  std::vector<int> parts_seen_;             // [parameters] of its gradient in this step
  std::vector<int> parts_expected_;         // [parameters] as many as in the last step that made it
  std::vector<std::size_t> order_seen_;     // parameters as they became ready in this step
  std::size_t launched_ = 0;                // buckets submitted in this step
  std::optional<c10::Stream> hook_stream_;  // on a GPU: of this step's gradients
  double early_factor_ = 1;
  bool disturbed_ = false;
  bool learning_ = true;
  BucketTuner tuner_;
};

}  // namespace mn
