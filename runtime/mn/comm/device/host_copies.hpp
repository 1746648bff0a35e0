/// Page-locked host memory that stands in for device buffers during a call.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include <mn/comm/cuda.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// Whether a call on the host needs a copy of it.
[[nodiscard]] inline bool lies_on_device(const ConstBufferView& buffer) {
  return buffer.device.type != DeviceType::kCpu;
}

/// Calls wait(stream) once for each stream that holds work on those of the buffers that lie on the device.
template <class Buffers, class Wait>
void for_each_stream(const Buffers& buffers, const Wait& wait) {
  std::vector<void*> seen;
  for (const ConstBufferView buffer : buffers) {
    if (!lies_on_device(buffer) || std::ranges::find(seen, buffer.stream) != seen.end()) continue;
    seen.push_back(buffer.stream);
    wait(buffer.stream);
  }
}

/// A block of page-locked memory, which grows, and a stream for the copies, which waits for nothing but what after()
/// names: a call in the background does not queue behind what the program computes. Borrowed buffers only; one call at
/// a time, which begins with after().
class HostStage {
 public:
  explicit HostStage(int device) : stream_(device) {}

  /// The copies begin after the work on the buffers' streams. Makes the device the calling thread's.
  template <class Buffers>
  void after(const Buffers& buffers) {
    for_each_stream(buffers, [this](void* stream) { stream_.wait_for(stream); });
  }
  /// Bytes for which reserve() allocates nothing.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Room for `bytes` in `buffers` > 0 buffers until the next call, which invalidates earlier copies.
  void reserve(std::size_t bytes, std::size_t buffers);
  /// Host memory for a buffer like `buffer`, in the reserved room right behind the one before; `buffer` itself if it
  /// lies on the host.
  [[nodiscard]] BufferView room_for(BufferView buffer);
  /// The same, with a copy of what `buffer` holds.
  [[nodiscard]] ConstBufferView copy_in(ConstBufferView buffer);
  [[nodiscard]] BufferView copy_in(BufferView buffer);
  /// Copies to `buffer` from `host`, which stands in for it; no copy if it lies on the host.
  void copy_out(BufferView buffer, BufferView host);
  /// Blocks until the copies, and what after() named, are done.
  void wait() { stream_.synchronize(); }

 private:
  CudaStream stream_;
  // The last is in use. The others stay: to free memory waits for the whole device, and so perhaps for a collective
  // that other ranks join only after this call. Each is twice as large as the one before, so all are less than twice
  // the last.
  std::vector<HostPinned> blocks_;
  std::size_t capacity_ = 0;  // bytes of the last
  std::size_t used_ = 0;
};

/// The stages of a communicator's requests, each of which needs its own while it is under way. They are freed with the
/// pool, which lives as long as the communicator and the last request: none while work may be under way on the device.
class HostStages : public std::enable_shared_from_this<HostStages> {
 public:
  struct PutBack {
    std::shared_ptr<HostStages> pool;
    void operator()(HostStage* stage) const noexcept { pool->free_.emplace_back(stage); }
  };
  using Borrowed = std::unique_ptr<HostStage, PutBack>;

  explicit HostStages(int device) : device_(device) {}
  /// One that nobody uses: the smallest that holds `bytes`, else the largest, else a new one.
  [[nodiscard]] Borrowed borrow(std::size_t bytes);

 private:
  int device_;
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<HostStage>> free_;  // has room for all that were made
};

/// Calls move(in, out), with host copies where `stage` is not null. `out` is written, all of it, and not read.
template <class Move>
void on_host(HostStage* stage, ConstBufferView in, BufferView out, const Move& move) {
  if (stage == nullptr) return move(in, out);
  stage->reserve(in.bytes() + out.bytes(), 2);
  const ConstBufferView host_in = stage->copy_in(in);
  const BufferView host_out = stage->room_for(out);
  stage->wait();
  move(host_in, host_out);
  stage->copy_out(out, host_out);
  stage->wait();
}

/// Calls move(buffer), which reads and writes, with a host copy where `stage` is not null.
template <class Move>
void on_host(HostStage* stage, BufferView buffer, const Move& move) {
  if (stage == nullptr) return move(buffer);
  stage->reserve(buffer.bytes(), 1);
  const BufferView host = stage->copy_in(buffer);
  stage->wait();
  move(host);
  stage->copy_out(buffer, host);
  stage->wait();
}

}  // namespace mn
