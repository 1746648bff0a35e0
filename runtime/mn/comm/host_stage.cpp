#include <mn/comm/host_stage.hpp>

namespace mn {

void HostStage::reserve(std::size_t bytes, std::size_t buffers) {
  used_ = 0;
  bytes += buffers * sizeof(double);  // each may need padding
  if (bytes <= capacity_) return;
  capacity_ = 0;
  memory_.reset();
  memory_ = cuda_allocate_pinned(bytes);
  capacity_ = bytes;
}

BufferView HostStage::copy_in(BufferView buffer) {
  if (buffer.device.type == DeviceType::kCpu || buffer.count == 0) return buffer;
  const std::size_t element_bytes = size_of(buffer.dtype);
  used_ = (used_ + element_bytes - 1) / element_bytes * element_bytes;
  const BufferView host(memory_.get() + used_, buffer.count, buffer.dtype);
  used_ += buffer.bytes();
  stream_.copy_to_host(host.data, buffer.data, buffer.bytes());
  return host;
}

ConstBufferView HostStage::copy_in(ConstBufferView buffer) {
  return copy_in(BufferView(const_cast<void*>(buffer.data), buffer.count, buffer.dtype, buffer.device));
}

void HostStage::copy_out(BufferView buffer, BufferView host) {
  if (buffer.device.type == DeviceType::kCpu || buffer.count == 0) return;
  stream_.copy_to_device(buffer.data, host.data, buffer.bytes());
}

}  // namespace mn
