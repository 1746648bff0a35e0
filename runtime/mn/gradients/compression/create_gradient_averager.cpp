#include <ATen/core/Tensor.h>

#include <mn/gradients/compression/cast_compressor.hpp>
#include <mn/gradients/compression/create_gradient_averager.hpp>
#include <mn/gradients/compression/power_sgd.hpp>
#include <mn/gradients/compression/top_k_compressor.hpp>

namespace mn {
namespace {

class PlainAverager final : public GradientAverager {
 public:
  explicit PlainAverager(std::shared_ptr<Trace> trace) : GradientAverager(std::move(trace)) {}

 private:
  void do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, Communicator& comm) override {
    average(gradients.messages().subspan(first, count), comm);
  }
};

}  // namespace

std::unique_ptr<GradientAverager> create_gradient_averager(const CompressionOptions& options,
                                                           const std::vector<at::Tensor>& parameters,
                                                           const Communicator& comm, std::shared_ptr<Trace> trace) {
  if (comm.size() == 1) return std::make_unique<PlainAverager>(std::move(trace));
  switch (options.kind) {
    case Compression::kNone:
      break;
    case Compression::kFp16:
      return std::make_unique<CastCompressor>(parameters, at::kHalf, std::move(trace));
    case Compression::kBf16:
      return std::make_unique<CastCompressor>(parameters, at::kBFloat16, std::move(trace));
    case Compression::kTopK:
      return std::make_unique<TopKCompressor>(parameters, options.density, std::move(trace));
    case Compression::kPowerSgd:
      return std::make_unique<PowerSgd>(parameters, options.rank, std::move(trace));
  }
  return std::make_unique<PlainAverager>(std::move(trace));
}

}  // namespace mn
