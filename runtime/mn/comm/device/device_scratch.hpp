/// Device memory for the operands of collective calls.
#pragma once

#include <string>
#include <vector>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/error.hpp>

namespace mn {

/// Scratch device memory of one stream. It grows on demand, and is kept until the destructor because a CUDA graph may
/// have captured its address.
class DeviceScratch {
 public:
  /// Returns at least `bytes` bytes of memory on the calling thread's device, valid until the next call. Throws
  /// CommError if it would have to allocate while `stream` captures a CUDA graph.
  [[nodiscard]] std::byte* reserve(std::size_t bytes, const CudaStream& stream) {
    if (bytes > capacity_) {
      // An allocation would end the capture of the graph.
      if (stream.is_captured()) {
        throw CommError("a CUDA graph is being captured, and " + std::to_string(bytes) +
                        " bytes have no device memory to be packed into: make the same call once before the capture");
      }
      // Older blocks stay: a captured graph, or work on the stream, may still use them.
      blocks_.push_back(cuda_allocate(bytes));
      capacity_ = bytes;
    }
    return blocks_.empty() ? nullptr : blocks_.back().get();
  }

 private:
  std::vector<CudaMemory> blocks_;
  std::size_t capacity_ = 0;  // bytes of the last block, which is in use
};

}  // namespace mn
