#include <mn/comm/host_stage.hpp>

namespace mn {

void HostStage::reserve(std::size_t bytes, std::size_t buffers) {
  used_ = 0;
  bytes += (buffers - 1) * sizeof(double);  // each but the first may need padding
  if (bytes <= capacity_) return;
  // Twice as large, so that few blocks come together: none is freed before the stage.
  bytes = std::max(bytes, 2 * capacity_);
  blocks_.push_back(cuda_allocate_pinned(bytes));
  capacity_ = bytes;
}

BufferView HostStage::room_for(BufferView buffer) {
  if (!lies_on_device(buffer) || buffer.count == 0) return buffer;
  const std::size_t element_bytes = size_of(buffer.dtype);
  used_ = (used_ + element_bytes - 1) / element_bytes * element_bytes;
  const BufferView host(blocks_.back().get() + used_, buffer.count, buffer.dtype);
  used_ += buffer.bytes();
  return host;
}

BufferView HostStage::copy_in(BufferView buffer) {
  const BufferView host = room_for(buffer);
  if (host.data != buffer.data) stream_.copy_to_host(host.data, buffer.data, buffer.bytes());
  return host;
}

ConstBufferView HostStage::copy_in(ConstBufferView buffer) {
  return copy_in(BufferView(const_cast<void*>(buffer.data), buffer.count, buffer.dtype, buffer.device));
}

void HostStage::copy_out(BufferView buffer, BufferView host) {
  if (!lies_on_device(buffer) || buffer.count == 0) return;
  stream_.copy_to_device(buffer.data, host.data, buffer.bytes());
}

HostStages::Borrowed HostStages::borrow(std::size_t bytes) {
  std::unique_ptr<HostStage> stage;
  const auto holds = [&](const auto& each) { return each->capacity() >= bytes; };
  std::ranges::sort(free_, {}, [](const auto& each) { return each->capacity(); });
  auto found = std::ranges::find_if(free_, holds);
  // The largest grows rather than a small one, which then would be two large blocks.
  if (found == free_.end() && !free_.empty()) --found;
  if (found == free_.end()) {
    // PutBack is called by destructors: its push_back must not allocate.
    free_.reserve(++made_);
    stage = std::make_unique<HostStage>(device_);
  } else {
    stage = std::move(*found);
    free_.erase(found);
  }
  return {stage.release(), PutBack{shared_from_this()}};
}

}  // namespace mn
