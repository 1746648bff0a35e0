#include <mn/gradients/compression/gradient_averager.hpp>

#include <algorithm>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <mn/tensor/stream_order.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

void GradientAverager::allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, double divisor,
                                 Communicator& comm) {
  const at::NoGradGuard no_grad;
  TracedWork::Scope scope(traced_, comm.device(), "reduce gradients", Trace::Lane::kCommunication);
  if (comm.debug()) {  // checked before compression; therefore the error names the rank
    const auto messages = on_current_stream(gradients.sent(first, count));
    comm.check_grad(messages, 1.0 / comm.size(), gradients.names(first, count));
  }
  const std::uint64_t before = bytes_sent_;
  do_allreduce(gradients, first, count, divisor, comm);
  scope.set_bytes(bytes_sent_ - before);
}

double GradientAverager::share_of_rank(const std::vector<at::Tensor>& parameters, Communicator& comm) const {
  const auto is_narrow = [](const at::Tensor& parameter) { return parameter.element_size() < 4; };
  if (comm.device_collectives() == nullptr || comm.debug() || !is_plain_mean()) return 1;
  return std::ranges::any_of(parameters, is_narrow) ? 1 : 1.0 / comm.size();
}

void GradientAverager::average(std::span<const BufferView> buffers, Communicator& comm) {
  if (buffers.empty()) return;
  const double scale = makes_sums_ ? 1 : 1.0 / comm.size();
  in_stream_order(
      comm, [&](DeviceCollectives& device) { device.sum_gradients(buffers, scale); },
      [&] { comm.sum_gradients(on_current_stream(buffers), scale); });
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

}  // namespace mn
