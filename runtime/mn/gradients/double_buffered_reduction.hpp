/// Double buffering, ChainerMN's option: the reduction of one step runs while the next step computes.
///
/// Step k copies its gradients into a buffer of their own, submits its reduction, and yields the mean of step k - 1. An
/// update is therefore one step stale: the first step yields none, and flush() yields the last one's.
/// (1) Of the two buffers one is being reduced while the update reads the other, which then becomes free.
/// (2) At most one reduction is under way: flush(), which reduce() calls before it submits one, waits for the one
///     before.
/// Cost of a step: one copy of the gradients and one collective. Memory: two more buffers of the gradients' size.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include <mn/gradients/gradient_reduction.hpp>

namespace mn {

class DoubleBufferedReduction : public GradientReduction {
 public:
  DoubleBufferedReduction(std::vector<at::Tensor> parameters, const SparseGradients::Known& sparse,
                          std::shared_ptr<Communicator> comm, std::shared_ptr<GradientAverager> averager,
                          GradientWatch::Depth watch);
  ~DoubleBufferedReduction() override;

  void train_only(const std::vector<bool>& parameters) override;
  ReductionResult reduce(const StepWeight& weight, bool has_fault) override;
  ReductionResult flush() override;
  void finish() override { background_->finish(); }
  void commit() override {}  // flush() has, before the next reduction reads the residuals

 private:
  struct Shared {
    std::unique_ptr<FlatBuffer> buffer;
    std::shared_ptr<GradientAverager> averager;
    StepAgreement agreement = {};  // that of the step whose gradients the buffer has
  };

  std::array<std::shared_ptr<Shared>, 2> in_flight_;
  std::size_t next_ = 0;  // the buffer that the next step fills
  bool started_ = false;  // the other one holds, or will hold, a mean that was not yielded
};

}  // namespace mn
