/// Device memory for the operands of collective calls. The memory grows on demand.
#pragma once

#include <string>
#include <vector>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/error.hpp>

namespace mn {

/// Scratch memory of one stream, kept until the destructor because a CUDA graph may have captured its address.
class DeviceScratch {
 public:
  /// Returns at least `bytes` bytes of memory on the calling thread's device, valid until the next call. Throws
  /// CommError if it would have to allocate while `stream` captures a CUDA graph.
  [[nodiscard]] std::byte* reserve(std::size_t bytes, const CudaStream& stream) {
    if (bytes > capacity_) {
      // An allocation would end the capture of the graph; therefore the need for an allocation is an error here.
      if (stream.is_captured()) {
        throw CommError("a CUDA graph is being captured, and " + std::to_string(bytes) +
                        " bytes have no device memory to be packed into: make the same call once before the capture");
      }
      // Older blocks are not freed, because a captured graph, or work on the stream, may still use them.
      blocks_.push_back(cuda_allocate(bytes));
      capacity_ = bytes;
    }
    return blocks_.empty() ? nullptr : blocks_.back().get();
  }

 private:
  std::vector<CudaMemory> blocks_;  // the last block is in use
  std::size_t capacity_ = 0;        // bytes of the last block
};

}  // namespace mn
