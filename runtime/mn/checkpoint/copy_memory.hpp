/// The memory to which saves in the background copy tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/buffer.hpp>
#include <mn/core/uninitialized.hpp>

namespace mn {

/// Memory that the next save uses again. Only one thread at a time may use an object.
class CopyMemory {
 public:
  /// Makes the memory at least `bytes` large, and lets the kernel provide all pages. If the memory must grow, its
  /// content is lost. For tensors on a GPU, the memory is page-locked, unless the system has too little page-locked
  /// memory. The GPU is the calling thread's current device.
  void reserve(std::uint64_t bytes, Device device);
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  HostPinned pinned_;    // owns bytes_ if they are page-locked
  ByteBuffer pageable_;  // owns bytes_ otherwise
  std::span<std::byte> bytes_;
};

}  // namespace mn
