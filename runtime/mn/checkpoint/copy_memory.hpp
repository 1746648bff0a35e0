/// Where saves beside training copy tensors to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/buffer.hpp>
#include <mn/core/uninitialized.hpp>

namespace mn {

/// Memory that serves one save after the other. For one thread at a time.
class CopyMemory {
 public:
  /// At least `bytes` from now on; what it held is lost if it was smaller. For tensors of a GPU, which is the calling
  /// thread's, it is page-locked where the system allows so much of that.
  void reserve(std::uint64_t bytes, Device device);
  /// Has the kernel provide the pages of the next 4 MiB, which takes most of the time of a first copy. Returns false
  /// once all pages are there.
  bool touch();
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  HostPinned pinned_;    // one of these two
  ByteBuffer pageable_;  // holds bytes_
  std::span<std::byte> bytes_;
  std::size_t touched_ = 0;
};

}  // namespace mn
