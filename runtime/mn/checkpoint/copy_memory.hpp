/// The memory that saves beside training copy tensors to.
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
  /// Makes the memory at least `bytes` large; smaller memory loses its content. For tensors on a GPU, the memory is
  /// page-locked, unless the system has too little page-locked memory. The GPU is the calling thread's current device.
  void reserve(std::uint64_t bytes, Device device);
  /// Lets the kernel provide the pages of the next 4 MiB: most of the time of a first copy. Returns false when all
  /// pages are there.
  bool touch();
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  HostPinned pinned_;    // owns bytes_, or
  ByteBuffer pageable_;  // owns bytes_
  std::span<std::byte> bytes_;
  std::size_t touched_ = 0;
};

}  // namespace mn
