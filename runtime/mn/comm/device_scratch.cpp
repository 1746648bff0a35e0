#include <mn/comm/device_scratch.hpp>
#include <mn/core/error.hpp>

namespace mn {

std::byte* DeviceScratch::reserve(std::size_t bytes, const CudaStream& stream) {
  if (bytes > capacity_) {
    if (stream.is_captured()) {
      throw CommError("a CUDA graph is being captured, and " + std::to_string(bytes) +
                      " bytes have no device memory to be packed into: make the same call once before the capture");
    }
    blocks_.push_back(cuda_allocate(bytes));
    capacity_ = bytes;
  }
  return blocks_.empty() ? nullptr : blocks_.back().get();
}

}  // namespace mn
