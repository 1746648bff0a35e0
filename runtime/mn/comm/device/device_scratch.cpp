#include <mn/comm/device/device_scratch.hpp>
#include <mn/core/error.hpp>

namespace mn {

std::byte* DeviceScratch::reserve(std::size_t bytes, const CudaStream& stream) {
  if (bytes > capacity_) {
    // An allocation would end the capture.
    if (stream.is_captured()) {
      throw CommError("a CUDA graph is being captured, and " + std::to_string(bytes) +
                      " bytes have no device memory to be packed into: make the same call once before the capture");
    }
    // Keeps the last block: a captured graph, or work on the stream, may still use it.
    blocks_.push_back(cuda_allocate(bytes));
    capacity_ = bytes;
  }
  return blocks_.empty() ? nullptr : blocks_.back().get();
}

}  // namespace mn
