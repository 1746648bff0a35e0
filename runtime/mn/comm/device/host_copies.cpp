#include <mn/comm/device/host_copies.hpp>

#include <cassert>

namespace mn {

void HostCopies::reserve(std::size_t bytes, std::size_t buffers) {
  used_ = 0;
  bytes += (buffers - 1) * sizeof(double);  // each buffer except the first may need padding
  if (bytes <= capacity_) return;
  // At least doubles, so there are few blocks.
  bytes = std::max(bytes, 2 * capacity_);
  blocks_.push_back(cuda_allocate_pinned(bytes));
  capacity_ = bytes;
}

BufferView HostCopies::room_for(BufferView buffer) {
  if (!lies_on_device(buffer) || buffer.count == 0) return buffer;
  const std::size_t element_bytes = size_of(buffer.dtype);
  used_ = (used_ + element_bytes - 1) / element_bytes * element_bytes;
  assert(used_ + buffer.bytes() <= capacity_);
  const BufferView host(blocks_.back().get() + used_, buffer.count, buffer.dtype);
  used_ += buffer.bytes();
  return host;
}

BufferView HostCopies::copy_in(BufferView buffer) {
  const BufferView host = room_for(buffer);
  if (host.data != buffer.data) stream_.copy_to_host(host.data, buffer.data, buffer.bytes());
  return host;
}

ConstBufferView HostCopies::copy_in(ConstBufferView buffer) {
  return copy_in(BufferView(const_cast<void*>(buffer.data), buffer.count, buffer.dtype, buffer.device));
}

void HostCopies::copy_out(BufferView buffer, BufferView host) {
  if (!lies_on_device(buffer) || buffer.count == 0) return;
  stream_.copy_to_device(buffer.data, host.data, buffer.bytes());
}

HostCopyPool::Borrowed HostCopyPool::borrow(std::size_t bytes) {
  std::unique_ptr<HostCopies> copies;
  const auto holds = [&](const auto& each) { return each->capacity() >= bytes; };
  std::ranges::sort(free_, {}, [](const auto& each) { return each->capacity(); });
  auto picked = std::ranges::find_if(free_, holds);
  // If no free object is large enough, the largest grows. Then there is only one large object.
  if (picked == free_.end() && !free_.empty()) --picked;
  if (picked == free_.end()) {
    // PutBack returns objects to free_ in destructors, where an allocation must not fail.
    free_.reserve(++created_);
    copies = std::make_unique<HostCopies>(device_);
  } else {
    copies = std::move(*picked);
    free_.erase(picked);
  }
  return {copies.release(), PutBack{shared_from_this()}};
}

}  // namespace mn
