/// Owners and checks for what communicators need of CUDA. A build without a toolkit has the same functions, which throw
/// UsageError.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <mn/core/buffer.hpp>

namespace mn {

/// GPUs that this process can use; 0 without a GPU, a driver or a build for CUDA.
[[nodiscard]] int cuda_device_count() noexcept;

/// Makes `index` the calling thread's device. Throws UsageError if there is no such GPU.
void cuda_set_device(int index);

/// The GPU's address on its host's PCI bus, "0000:1b:00.0": equal for two ranks of a host that share it.
[[nodiscard]] std::string cuda_bus_id(int index);

struct HostPinnedDeleter {
  void operator()(std::byte* memory) const noexcept;
};
/// Page-locked host memory, which the GPU copies to and from at full speed. Freed when the device is idle, which the
/// destructor waits for unless an exception unwinds.
using HostPinned = std::unique_ptr<std::byte, HostPinnedDeleter>;
[[nodiscard]] HostPinned cuda_allocate_pinned(std::size_t bytes);

struct CudaMemoryDeleter {
  void operator()(std::byte* memory) const noexcept;
};
/// Memory of the calling thread's device, 256-byte aligned, not initialized. Freed as HostPinned is.
using CudaMemory = std::unique_ptr<std::byte, CudaMemoryDeleter>;
[[nodiscard]] CudaMemory cuda_allocate(std::size_t bytes);

struct CudaEventDeleter {
  void operator()(void* event) const noexcept;
};
/// Owns a cudaEvent_t.
using CudaEvent = std::unique_ptr<void, CudaEventDeleter>;
/// An event of the calling thread's device, without times.
[[nodiscard]] CudaEvent cuda_create_event();

/// A stream of one device, of the highest priority; work enqueued on it runs in order and beside all other streams, the
/// legacy default stream too, but for what wait_for() and go_before() name. Streams of others are cudaStream_t's as
/// void*, null for the legacy default stream.
class CudaStream {
 public:
  explicit CudaStream(int device);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  /// Enqueue copies.
  void copy_to_host(void* host, const void* device, std::size_t bytes);
  void copy_to_device(void* device, const void* host, std::size_t bytes);
  void copy_on_device(void* to, const void* from, std::size_t bytes);
  /// What is enqueued here from now on begins after what `other` holds now; the host does not wait, here and below.
  /// Makes this stream's device the calling thread's, which allocations and kernels go by.
  void wait_for(void* other);
  /// What is enqueued on `other` from now on begins after what this stream holds now. Sets the device as well.
  void go_before(void* other);
  /// Whether a CUDA graph is being captured that this stream takes part in.
  [[nodiscard]] bool is_captured() const;
  /// Whether all that was enqueued is done.
  [[nodiscard]] bool is_done() const;
  /// Blocks until all that was enqueued is done. Lets MPI go on meanwhile if there are requests.
  void synchronize();

  [[nodiscard]] void* handle() const noexcept { return stream_; }

 private:
  int device_;
  void* stream_ = nullptr;
  CudaEvent event_;  // orders one stream after another; recorded again each time
};

}  // namespace mn
