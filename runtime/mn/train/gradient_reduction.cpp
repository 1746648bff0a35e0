#include <mn/comm/device_collectives.hpp>
#include <mn/train/double_buffering.hpp>
#include <mn/train/gradient_reduction.hpp>
#include <mn/train/overlap.hpp>

namespace mn {
namespace {

/// Everything at the step, in place.
class DirectReduction : public GradientReduction {
 public:
  DirectReduction(std::vector<at::Tensor> parameters, std::shared_ptr<Communicator> comm,
                  std::shared_ptr<GradientCompressor> compressor)
      : GradientReduction(std::move(compressor)), comm_(std::move(comm)), gradients_(std::move(parameters), *comm_) {
    this->compressor().lay_out({}, *comm_);
  }

  const std::vector<at::Tensor>& parameters() const noexcept override { return gradients_.parameters(); }
  void zero() override { gradients_.zero(); }
  void release() noexcept override { gradients_.release(); }
  bool reduce(double weight) override {
    gradients_.collect(weight);
    compressor().allreduce(gradients_.flat(), 0, gradients_.flat().messages().size(), *comm_);
    if (auto* const device = comm_->device_collectives()) device->wait();
    if (!gradients_.finish()) return false;
    compressor().commit();
    return true;
  }

 private:
  std::shared_ptr<Communicator> comm_;
  GradientBuffer gradients_;
};

}  // namespace

std::unique_ptr<GradientReduction> create_gradient_reduction(std::vector<at::Tensor> parameters,
                                                             const std::shared_ptr<Communicator>& comm,
                                                             const OptimizerOptions& options) {
  std::shared_ptr<GradientCompressor> compressor =
      create_compressor(options.compression, parameters, *comm, options.trace);
  if (options.double_buffering) {
    return std::make_unique<DoubleBufferedReduction>(std::move(parameters), *comm, std::move(compressor));
  }
  if (options.overlap && comm->size() > 1) {
    return std::make_unique<OverlappedReduction>(std::move(parameters), comm, std::move(compressor), options);
  }
  return std::make_unique<DirectReduction>(std::move(parameters), comm, std::move(compressor));
}

}  // namespace mn
