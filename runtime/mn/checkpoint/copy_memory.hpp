/// Memory for the copies of tensors that a save in the background makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/buffer.hpp>
#include <mn/core/uninitialized.hpp>

namespace mn {

/// Keeps the memory of one save in the background for the next save. One thread at a time may use an object.
class CopyMemory {
 public:
  /// Makes the memory at least `bytes` large, and lets the kernel provide all pages. If the memory must grow, its
  /// content is lost. If `device` is a GPU, it must be the current device of the calling thread. The memory is then
  /// page-locked, unless the system has too little page-locked memory.
  void reserve(std::uint64_t bytes, Device device);
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  HostPinned pinned_;    // owns bytes_ if the memory is page-locked
  ByteBuffer pageable_;  // owns bytes_ if it is not page-locked
  std::span<std::byte> bytes_;
};

}  // namespace mn
