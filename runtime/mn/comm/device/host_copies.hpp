/// Host copies of device buffers: page-locked memory for calls that cannot read or write device memory.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// True if the buffer lies on a device. A call on the host then needs a host copy of the buffer.
[[nodiscard]] inline bool lies_on_device(const ConstBufferView& buffer) {
  return buffer.device.type != DeviceType::kCpu;
}

/// Calls wait(stream) once for each stream that holds work on a device buffer in `buffers`.
template <class Buffers, class Wait>
void for_each_stream(const Buffers& buffers, const Wait& wait) {
  std::vector<void*> seen;
  for (const ConstBufferView buffer : buffers) {
    if (!lies_on_device(buffer) || std::ranges::find(seen, buffer.stream) != seen.end()) continue;
    seen.push_back(buffer.stream);
    wait(buffer.stream);
  }
}

/// Page-locked memory for the host copies of one call's buffers, and a stream on which the copies are made. The stream
/// is separate; therefore the copies do not queue behind the program's kernels. Each call begins with after(). One call
/// at a time may use the object.
class HostCopies {
 public:
  explicit HostCopies(int device) : stream_(device) {}

  /// Later copies begin after the present work on the streams of `buffers`. Makes this object's device current.
  template <class Buffers>
  void after(const Buffers& buffers) {
    for_each_stream(buffers, [this](void* stream) { stream_.wait_for(stream); });
  }
  /// The largest number of bytes that reserve() can give without an allocation.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Reserves memory for host copies: `bytes` in all, for a number of `buffers`, at least 1. Earlier copies become
  /// invalid.
  void reserve(std::size_t bytes, std::size_t buffers);
  /// Reserved host memory with the size and dtype of `buffer`, or `buffer` itself if it lies on the host.
  [[nodiscard]] BufferView room_for(BufferView buffer);
  /// Takes room_for(buffer), enqueues a copy of the buffer's elements to this host memory, and returns the host memory.
  [[nodiscard]] ConstBufferView copy_in(ConstBufferView buffer);
  [[nodiscard]] BufferView copy_in(BufferView buffer);
  /// Enqueues a copy of the elements of `host` back to `buffer`. Does nothing if `buffer` lies on the host.
  void copy_out(BufferView buffer, BufferView host);
  /// Blocks until all enqueued copies are done. The work that after() has put before the copies is then done, too.
  void wait() { stream_.synchronize(); }

 private:
  CudaStream stream_;
  // The last block is in use. Earlier blocks are not freed, because CUDA would then wait for the device, and perhaps
  // for late ranks. Each block is at least twice as large as the block before; therefore there are few blocks.
  std::vector<HostPinned> blocks_;
  std::size_t capacity_ = 0;  // bytes of the last block
  std::size_t used_ = 0;
};

/// The HostCopies objects of a communicator's requests, one for each request under way. All requests together own the
/// pool; therefore it is freed after the last request.
class HostCopyPool : public std::enable_shared_from_this<HostCopyPool> {
 public:
  struct PutBack {
    std::shared_ptr<HostCopyPool> pool;
    void operator()(HostCopies* copies) const noexcept { pool->free_.emplace_back(copies); }
  };
  using Borrowed = std::unique_ptr<HostCopies, PutBack>;

  explicit HostCopyPool(int device) : device_(device) {}
  /// Lends the smallest free object with a capacity of at least `bytes`, else the largest free one, else a new one.
  [[nodiscard]] Borrowed borrow(std::size_t bytes);

 private:
  int device_;
  std::size_t created_ = 0;
  std::vector<std::unique_ptr<HostCopies>> free_;  // has room for all created objects
};

/// Calls move(in, out), which must write every element of `out`. If `copies` is not null, `move` gets host copies in
/// place of device buffers.
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

/// Calls move(buffer), which reads and writes the buffer. If `copies` is not null, `move` gets a host copy in place of
/// a device buffer.
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
