/// Host copies of device buffers: page-locked memory for calls that cannot read or write device memory.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

[[nodiscard]] inline bool lies_on_device(const ConstBufferView& buffer) {
  return buffer.device.type != DeviceType::kCpu;
}

template <class Buffers, class Wait>
void for_each_stream(const Buffers& buffers, const Wait& wait) {
  std::vector<void*> seen;
  for (const ConstBufferView buffer : buffers) {
    if (!lies_on_device(buffer) || std::ranges::find(seen, buffer.stream) != seen.end()) continue;
    seen.push_back(buffer.stream);
    wait(buffer.stream);
  }
}

/// Page-locked memory for the host copies of one call's buffers, and a separate stream for the copies, so they do not
/// queue behind the program's kernels. Each call begins with after(). One call at a time may use the object.
class HostCopies {
 public:
  explicit HostCopies(int device) : stream_(device) {}

  /// Later copies begin after the present work on the streams of `buffers`. Makes this object's device current.
  template <class Buffers>
  void after(const Buffers& buffers) {
    for_each_stream(buffers, [this](void* stream) { stream_.wait_for(stream); });
  }
  /// Bytes that reserve() can give without an allocation.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Reserves `bytes` in all for the host copies of `buffers` >= 1 buffers. Earlier copies become invalid.
  void reserve(std::size_t bytes, std::size_t buffers);
  /// Reserved host memory with the size and dtype of `buffer`, or `buffer` itself if it lies on the host.
  [[nodiscard]] BufferView room_for(BufferView buffer);
  /// Enqueues a copy of the buffer's elements to room_for(buffer), and returns this host memory.
  [[nodiscard]] ConstBufferView copy_in(ConstBufferView buffer);
  [[nodiscard]] BufferView copy_in(BufferView buffer);
  /// Enqueues a copy of `host` back to `buffer`. Does nothing if `buffer` lies on the host.
  void copy_out(BufferView buffer, BufferView host);
  /// Blocks until all enqueued copies, and the work before after(), are done.
  void wait() { stream_.synchronize(); }

 private:
  CudaStream stream_;
  // The last block is in use. Earlier blocks stay: to free them, CUDA would wait for the device.
  std::vector<HostPinned> blocks_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

/// The HostCopies of a communicator's requests, one for each request under way. All requests together own the pool.
class HostCopyPool : public std::enable_shared_from_this<HostCopyPool> {
 public:
  struct PutBack {
    std::shared_ptr<HostCopyPool> pool;
    void operator()(HostCopies* copies) const noexcept { pool->free_.emplace_back(copies); }
  };
  using Borrowed = std::unique_ptr<HostCopies, PutBack>;

  explicit HostCopyPool(int device) : device_(device) {}
  /// Lends the smallest free object of at least `bytes`, else the largest free object, else a new object.
  [[nodiscard]] Borrowed borrow(std::size_t bytes);

 private:
  int device_;
  std::size_t created_ = 0;
  std::vector<std::unique_ptr<HostCopies>> free_;  // has room for all created objects
};

/// Calls move(in, out), which must write every element of `out`. If `copies` is not null, device buffers are replaced
/// by host copies.
template <class Move>
void on_host(HostCopies* copies, ConstBufferView in, BufferView out, const Move& move) {
  if (copies == nullptr) return move(in, out);
  copies->reserve(in.bytes() + out.bytes(), 2);
  const ConstBufferView host_in = copies->copy_in(in);
  const BufferView host_out = copies->room_for(out);
  copies->wait();
  move(host_in, host_out);
  copies->copy_out(out, host_out);
  copies->wait();
}

/// Calls move(buffer), which reads and writes the buffer. If `copies` is not null, a device buffer is replaced by a
/// host copy.
template <class Move>
void on_host(HostCopies* copies, BufferView buffer, const Move& move) {
  if (copies == nullptr) return move(buffer);
  copies->reserve(buffer.bytes(), 1);
  const BufferView host = copies->copy_in(buffer);
  copies->wait();
  move(host);
  copies->copy_out(buffer, host);
  copies->wait();
}

}  // namespace mn
