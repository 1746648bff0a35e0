#include <mn/gradients/compression/create_gradient_averager.hpp>

#include <ATen/core/Tensor.h>

#include <mn/core/log.hpp>
#include <mn/gradients/compression/cast_compressor.hpp>
#include <mn/gradients/compression/power_sgd.hpp>
#include <mn/gradients/compression/top_k_compressor.hpp>

namespace mn {
namespace {

class PlainAverager final : public GradientAverager {
 public:
  explicit PlainAverager(std::shared_ptr<Trace> trace) : GradientAverager(std::move(trace)) {}

 private:
  [[nodiscard]] bool is_plain_mean() const noexcept override { return true; }
  void do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, double /*divisor*/,
                    Communicator& comm) override {
    average(gradients.sent(first, count), comm);
  }
};

/// Logs on rank 0 how many gradients are sent uncompressed. The user should know this number, because the more
/// gradients are sent uncompressed, the fewer bytes compression saves. Returns `averager`.
std::unique_ptr<GradientAverager> announced(std::unique_ptr<ErrorFeedback> averager, const Communicator& comm,
                                            Compression kind, const std::string& which) {
  const std::string whole = averager->whole_gradients();
  if (comm.rank() == 0 && !whole.empty()) {
    log_info("compression " + compression_names()[static_cast<std::size_t>(kind)] + ": " + whole +
             " travel whole, because they " + which);
  }
  return averager;
}

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
      return announced(std::make_unique<TopKCompressor>(parameters, options.density, std::move(trace)), comm,
                       options.kind,
                       "are not float32 or have fewer than " + std::to_string(TopKCompressor::kSmallest) + " elements");
    case Compression::kPowerSgd:
      return announced(std::make_unique<PowerSgd>(parameters, options.rank, std::move(trace)), comm, options.kind,
                       "are not float32, have one dimension or would not shrink to half");
  }
  return std::make_unique<PlainAverager>(std::move(trace));
}

}  // namespace mn
