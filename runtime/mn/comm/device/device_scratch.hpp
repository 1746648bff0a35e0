/// Device memory for operands of collectives. It grows on demand.
#pragma once

#include <vector>

#include <mn/comm/device/cuda.hpp>

namespace mn {

/// Memory stays until the object is destroyed, because a CUDA graph may have captured its address. For the work of one
/// stream.
class DeviceScratch {
 public:
  /// At least `bytes` on the calling thread's device, valid until the next call. Throws CommError if it had to allocate
  /// while `stream` is captured.
  [[nodiscard]] std::byte* reserve(std::size_t bytes, const CudaStream& stream);

 private:
  std::vector<CudaMemory> blocks_;  // the last block is in use
  std::size_t capacity_ = 0;        // bytes of the last block
};

}  // namespace mn
