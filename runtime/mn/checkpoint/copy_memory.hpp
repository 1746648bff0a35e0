/// The memory that saves in the background copy tensors to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/buffer.hpp>
#include <mn/core/uninitialized.hpp>

namespace mn {

/// Memory, kept from save to save. For one thread at a time.
class CopyMemory {
 public:
  /// Makes the memory at least `bytes` large, with all its pages; smaller memory loses its content. For tensors on a
  /// GPU, the memory is page-locked, unless the system has too little page-locked memory. The GPU is the calling
  /// thread's current device.
  void reserve(std::uint64_t bytes, Device device);
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  HostPinned pinned_;    // owns bytes_, or
  ByteBuffer pageable_;  // owns bytes_
  std::span<std::byte> bytes_;
};

}  // namespace mn
