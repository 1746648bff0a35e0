/// Device memory for the operands of collectives, which grows.
#pragma once

#include <vector>

#include <mn/comm/device/cuda.hpp>

namespace mn {

/// Memory once given out stays until this goes: a CUDA graph may have captured its address. For the work of one stream.
class DeviceScratch {
 public:
  /// Room for `bytes`, on the calling thread's device, until the next call. Throws CommError if memory would have to be
  /// allocated while `stream` is captured.
  [[nodiscard]] std::byte* reserve(std::size_t bytes, const CudaStream& stream);

 private:
  std::vector<CudaMemory> blocks_;  // the last is in use
  std::size_t capacity_ = 0;        // bytes of the last
};

}  // namespace mn
