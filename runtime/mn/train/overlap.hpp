/// Reduces gradients while backward goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <mn/comm/bucket.hpp>
#include <mn/train/background_reducer.hpp>
#include <mn/train/bucket_tuner.hpp>
#include <mn/train/gradient_reduction.hpp>
#include <mn/train/ready_hooks.hpp>

namespace mn {

/// Buckets in the order of use during backward (Li et al. 2020, PyTorch Distributed, arXiv:2006.15704) are copied and
/// reduced in the background as soon as the last gradient in them is there. This rank's own gradients stay as they are,
/// so whatever the early reduction could not foresee - a second backward, another weight, a gradient changed by hand -
/// is found at the step and reduced again: the result is that of the direct reduction, bit for bit on backends that sum
/// in rank order. Copies are made before backward returns, so that whoever then writes to gradients, a second backward
/// for one, waits for nothing. Not for a backward inside a backward, nor for one that a CUDA graph captures.
class OverlappedReduction : public GradientReduction {
 public:
  OverlappedReduction(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm,
                      std::shared_ptr<GradientCompressor> compressor, const OptimizerOptions& options);
  ~OverlappedReduction() override;

  const std::vector<at::Tensor>& parameters() const noexcept override { return gradients_.parameters(); }
  void clear() override;
  bool reduce(double weight) override;
  void release() noexcept override { gradients_.release(); }

 private:
  void lay_out(std::vector<at::Tensor> parameters, std::vector<std::size_t> order);
  void ready(std::size_t i);
  void plan(std::size_t bucket_bytes);
  void forget_gradients();
  void launch(std::size_t bucket);
  void submit_messages(std::size_t first, std::size_t count);
  void end_step();
  void finish_copies();
  [[nodiscard]] bool changed_since_launch() const;
  void learn_order();

  /// What reductions use, and keep alive.
  struct Shared {
    FlatBuffer own;   // this rank's gradients
    FlatBuffer mean;  // copied from `own`, then reduced
    std::shared_ptr<GradientCompressor> compressor;
  };
  /// Messages [first, first + count) on their way. The background copies them, or who cannot wait for it.
  struct Part {
    void copy();
    void reduce(Communicator& comm);

    std::shared_ptr<Shared> shared;
    std::size_t first;
    std::size_t count;
    std::once_flag copied = {};
  };

  std::shared_ptr<Communicator> comm_;
  std::optional<ReadyHooks> hooks_;
  BackgroundReducer background_;
  GradientBuffer gradients_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<Part>> parts_;  // submitted since the last finish_copies()
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;        // [parameters]
  std::vector<std::size_t> missing_;          // [buckets] gradients that are not there yet
  std::vector<std::uint32_t> ready_version_;  // [parameters] of the view when it was ready
  std::vector<std::size_t> order_seen_;       // parameters as they became ready in this step
  std::size_t launched_ = 0;                  // buckets submitted in this step
  std::optional<c10::Stream> hook_stream_;    // on a GPU: of this step's gradients
  bool disturbed_ = false;
  bool learning_ = true;
  BucketTuner tuner_;
};

}  // namespace mn
