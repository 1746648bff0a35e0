/// Double buffering, ChainerMN's option: the gradients of one step are reduced while the next step computes.
///
/// Step k copies its gradients into one of two buffers, submits the reduction of this copy, and yields the mean of step
/// k - 1. Therefore each update is one step late: the first step yields no mean, and flush() yields the last step's
/// mean.
/// (1) While one buffer is being reduced, the update reads the mean in the second buffer. Then the second buffer is
///     free.
/// (2) At most one reduction is under way: reduce() waits in flush() before it submits the next reduction.
/// (3) A rank whose parameter set changes still makes one reduction, and waits for the result. The other ranks read
///     this result a step later, submit no more reductions, and throw. Therefore all ranks have made the same
///     collective calls.
/// Cost of a step: one copy of the gradients and one collective. Memory: two more buffers of the gradients' size.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include <mn/gradients/gradient_reduction.hpp>

namespace mn {

class DoubleBufferedReduction : public GradientReduction {
 public:
  DoubleBufferedReduction(std::vector<at::Tensor> parameters, const SparseGradients::Flags& sparse,
                          std::shared_ptr<Communicator> comm, std::shared_ptr<GradientAverager> averager,
                          GradientWatch::Depth watch);
  ~DoubleBufferedReduction() override;

  void train_only(const std::vector<bool>& parameters) override;
  ReductionResult reduce(const StepWeight& weight, bool has_fault) override;
  ReductionResult flush() override;
  void finish() override { background_->finish(); }
  void commit() override {}  // flush() commits, before the next reduction reads the residuals

 private:
  struct Shared {
    std::unique_ptr<FlatBuffer> buffer;
    std::shared_ptr<GradientAverager> averager;
    StepAgreement agreement = {};  // of the step whose gradients are in the buffer
  };

  std::array<std::shared_ptr<Shared>, 2> in_flight_;
  std::size_t next_ = 0;  // index of the buffer that the next step fills
  bool started_ = false;  // the last step's mean was not yielded yet; its reduction may still run
};

}  // namespace mn
