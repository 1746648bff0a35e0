#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <mn/comm/device_collectives.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/train/compression/cast_compressor.hpp>
#include <mn/train/compression/power_sgd.hpp>
#include <mn/train/compression/top_k_compressor.hpp>
#include <mn/train/gradients/gradient_averager.hpp>

namespace mn {
namespace {

/// Orders a collective after the work on the caller's current stream. Where the device has collectives of its own, they
/// are enqueued; otherwise, and in debug mode, which reads the values, `call()` blocks.
template <class Enqueue, class Call>
void in_stream_order(Communicator& comm, const Enqueue& enqueue, const Call& call) {
  DeviceCollectives* device = comm.debug() ? nullptr : comm.device_collectives();
  if (device == nullptr) return call();
  const c10::Stream stream = current_stream(comm.device());
  device->after(stream.native_handle());
  enqueue(*device);
  device->join(stream.native_handle());
}

class PlainAverager final : public GradientAverager {
 public:
  explicit PlainAverager(std::shared_ptr<Trace> trace) : GradientAverager(std::move(trace)) {}

 private:
  void do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, Communicator& comm) override {
    average(gradients.messages().subspan(first, count), comm);
  }
};

/// Says on rank 0 what a sparse way to send leaves as it is, which bounds what it saves.
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

void GradientAverager::allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, Communicator& comm) {
  const at::NoGradGuard no_grad;
  Trace::Scope scope(trace_.get(), "reduce gradients", Trace::Lane::kCommunication);
  if (comm.debug()) {  // before compression: a message about a value names its rank
    const auto messages = on_current_stream(gradients.messages().subspan(first, count));
    comm.check_grad(messages, 1.0 / comm.size(), gradients.names(first, count));
  }
  const std::uint64_t before = bytes_sent_;
  do_allreduce(gradients, first, count, comm);
  scope.set_bytes(bytes_sent_ - before);
}

void GradientAverager::average(std::span<const BufferView> buffers, Communicator& comm) {
  const double scale = 1.0 / comm.size();
  in_stream_order(
      comm, [&](DeviceCollectives& device) { device.allreduce_grad(buffers, scale); },
      [&] { comm.allreduce_grad(on_current_stream(buffers), scale); });
  if (comm.size() > 1) count_bytes(buffers);
}

std::uint64_t GradientAverager::count_bytes(std::span<const BufferView> sent) noexcept {
  std::uint64_t bytes = 0;
  for (const BufferView& buffer : sent) bytes += buffer.bytes();
  bytes_sent_ += bytes;
  return bytes;
}

void GradientAverager::allgather(ConstBufferView own, BufferView all, Communicator& comm) {
  in_stream_order(
      comm, [&](DeviceCollectives& device) { device.allgather(own, all); }, [&] { comm.allgather(own, all); });
  bytes_sent_ += own.bytes();
}

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
