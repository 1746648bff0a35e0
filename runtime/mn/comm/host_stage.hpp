/// Page-locked host memory that stands in for device buffers during a call.
#pragma once

#include <algorithm>
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

/// One block of page-locked memory, which grows, and a stream for the copies, which waits for nothing but what after()
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
  /// Room for `bytes` in `buffers` buffers until the next call, which invalidates earlier copies.
  void reserve(std::size_t bytes, std::size_t buffers);
  /// A host copy of `buffer`, in the reserved room right behind the one before; `buffer` itself if it lies on the host.
  [[nodiscard]] ConstBufferView copy_in(ConstBufferView buffer);
  [[nodiscard]] BufferView copy_in(BufferView buffer);
  /// Copies to `buffer` from `host`, which copy_in() returned for it; no copy if it lies on the host.
  void copy_out(BufferView buffer, BufferView host);
  /// Blocks until the copies, and what after() named, are done.
  void wait() { stream_.synchronize(); }

 private:
  CudaStream stream_;
  HostPinned memory_;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
};

/// Calls move(in, out), with host copies where `stage` is not null.
template <class Move>
void on_host(HostStage* stage, ConstBufferView in, BufferView out, const Move& move) {
  if (stage == nullptr) return move(in, out);
  stage->reserve(in.bytes() + out.bytes(), 2);
  const ConstBufferView host_in = stage->copy_in(in);
  const BufferView host_out = stage->copy_in(out);
  stage->wait();
  move(host_in, host_out);
  stage->copy_out(out, host_out);
  stage->wait();
}

}  // namespace mn
