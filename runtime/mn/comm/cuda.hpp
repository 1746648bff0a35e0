/// Owners and checks for what communicators need of CUDA; without a toolkit or a GPU the same functions say so.
#pragma once

#include <cstddef>
#include <memory>

#include <mn/comm/buffer.hpp>

namespace mn {

/// GPUs that this process can use; 0 without a GPU, a driver or a build for CUDA.
[[nodiscard]] int cuda_device_count() noexcept;

/// Makes `index` the calling thread's device. Throws UsageError if there is no such GPU.
void cuda_set_device(int index);

struct HostPinnedDeleter {
  void operator()(std::byte* memory) const noexcept;
};
/// Page-locked host memory, which the GPU copies to and from at full speed.
using HostPinned = std::unique_ptr<std::byte, HostPinnedDeleter>;
[[nodiscard]] HostPinned cuda_allocate_pinned(std::size_t bytes);

/// A stream of one device; work enqueued on it runs in order and beside other streams.
class CudaStream {
 public:
  explicit CudaStream(int device);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  /// Enqueue copies; the legacy default stream's earlier work on the buffers comes first.
  void copy_to_host(void* host, const void* device, std::size_t bytes);
  void copy_to_device(void* device, const void* host, std::size_t bytes);
  /// Blocks until all that was enqueued is done.
  void synchronize();

 private:
  int device_;
  void* stream_ = nullptr;
};

}  // namespace mn
