#include <mn/core/error.hpp>
#include <mn/train/double_buffering.hpp>
#include <mn/train/gradient_reduction.hpp>
#include <mn/train/overlap.hpp>

namespace mn {
namespace {

/// Everything at the step, in place.
class DirectReduction : public GradientReduction {
 public:
  DirectReduction(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm)
      : comm_(std::move(comm)), gradients_(std::move(parameters), *comm_) {}

  const std::vector<at::Tensor>& parameters() const noexcept override { return gradients_.parameters(); }
  std::size_t bytes() const noexcept override { return gradients_.flat().bytes(); }
  void zero() override { gradients_.zero(); }
  bool reduce(double weight) override {
    gradients_.collect(weight);
    comm_->allreduce_grad(gradients_.flat().messages(), 1.0 / comm_->size());
    return gradients_.finish();
  }

 private:
  std::shared_ptr<Communicator> comm_;
  GradientBuffer gradients_;
};

}  // namespace

std::unique_ptr<GradientReduction> create_gradient_reduction(std::vector<at::Tensor> parameters,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             const ReductionOptions& options) {
  if (options.overlap && options.double_buffering) {
    throw UsageError(
        "overlap and double buffering exclude each other: a stale step has nothing to overlap with backward");
  }
  if (options.double_buffering) return std::make_unique<DoubleBufferedReduction>(std::move(parameters), *comm);
  if (options.overlap && comm->size() > 1) {
    return std::make_unique<OverlappedReduction>(std::move(parameters), comm, options);
  }
  return std::make_unique<DirectReduction>(std::move(parameters), comm);
}

}  // namespace mn
