#include <mn/loader/batch_copier.hpp>

#include <ATen/core/Tensor.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

// c10's streams and events do not depend on the device, so this file needs no CUDA.

template <class Fields, class Use>
void for_each_tensor(Fields& fields, const Use& use) {
  for (auto& field : fields) {
    for (auto* tensor : {&field.values, &field.offsets}) {
      if (tensor->defined()) use(*tensor);
    }
  }
}

}  // namespace

void CopyTicket::wait(const std::vector<BatchField>& fields) const {
  if (!done_) return;
  const c10::Device device = fields[0].values.device();
  const c10::Stream current = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  done_->block(current);
  for_each_tensor(fields, [&](const at::Tensor& tensor) { tensor.record_stream(current); });
}

BatchCopier::BatchCopier(Device device) : device_(device) {
  if (device_.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device_.type()).getStreamFromGlobalPool(device_);
}

void BatchCopier::copy(std::vector<BatchField>& fields, const std::function<void(std::vector<BatchField>&)>& finish,
                       CopyTicket& ticket) const {
  if (!stream_) {
    if (finish) finish(fields);
    return;
  }
  const c10::StreamGuard guard(*stream_);
  // Tensors that a transform did not allocate with memory() may not be page-locked; pin_memory() copies these.
  // libtorch's host allocator frees page-locked memory only after the copy to the device has finished.
  for_each_tensor(fields, [&](at::Tensor& tensor) { tensor = tensor.pin_memory().to(device_, /*non_blocking=*/true); });
  if (finish) finish(fields);
  auto done = std::make_unique<c10::Event>(device_.type());
  done->record(*stream_);
  ticket = CopyTicket(std::move(done));
}

}  // namespace mn
