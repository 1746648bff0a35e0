#include <ATen/core/Tensor.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <mn/data/batch_copier.hpp>

// Streams and events through c10's device-independent interface: one source for builds with and without CUDA.
namespace mn {

void CopyTicket::wait(const at::Tensor& data, const at::Tensor& target) const {
  if (!done_) return;
  const c10::Stream current = c10::impl::VirtualGuardImpl(data.device().type()).getStream(data.device());
  done_->block(current);
  data.record_stream(current);
  target.record_stream(current);
}

BatchCopier::BatchCopier(Device device)
    : device_(device.type == DeviceType::kCpu ? c10::Device(c10::kCPU)
                                              : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device.index))) {
  if (device_.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
}

std::pair<at::Tensor, at::Tensor> BatchCopier::copy(at::Tensor data, at::Tensor target, CopyTicket& ticket) const {
  if (!stream_) return {std::move(data), std::move(target)};
  const c10::StreamGuard guard(*stream_);
  // A transform of the user's may have taken other memory. Pinned memory is given back only when the stream has passed
  // the copy: libtorch's host allocator sees to that.
  std::pair<at::Tensor, at::Tensor> copies{data.pin_memory().to(device_, /*non_blocking=*/true),
                                           target.pin_memory().to(device_, /*non_blocking=*/true)};
  auto done = std::make_unique<c10::Event>(device_.type());
  done->record(*stream_);
  ticket = CopyTicket(std::move(done));
  return copies;
}

}  // namespace mn
