/// Owners and checks for handles of CUDA. In a build without a toolkit the functions exist and throw UsageError.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <mn/core/buffer.hpp>

namespace mn {

/// Number of GPUs that the process can use. 0 if there is no GPU or no driver, or if this build has no CUDA.
[[nodiscard]] int cuda_device_count() noexcept;

/// Makes `index` the calling thread's device. Throws UsageError if there is no such GPU.
void cuda_set_device(int index);

/// The GPU's PCI address on its host, "0000:1b:00.0". Ranks of a host with equal addresses share a GPU.
[[nodiscard]] std::string cuda_bus_id(int index);

struct HostPinnedDeleter {
  void operator()(std::byte* memory) const noexcept;
};
/// Page-locked host memory. Its destructor waits for an idle device, except while an exception unwinds the stack.
using HostPinned = std::unique_ptr<std::byte, HostPinnedDeleter>;
[[nodiscard]] HostPinned cuda_allocate_pinned(std::size_t bytes);

struct CudaMemoryDeleter {
  void operator()(std::byte* memory) const noexcept;
};
/// Device memory, aligned to 256 bytes and not initialized. Its destructor waits as HostPinned's does. cuda_allocate()
/// allocates on the calling thread's device.
using CudaMemory = std::unique_ptr<std::byte, CudaMemoryDeleter>;
[[nodiscard]] CudaMemory cuda_allocate(std::size_t bytes);

struct CudaEventDeleter {
  void operator()(void* event) const noexcept;
};
using CudaEvent = std::unique_ptr<void, CudaEventDeleter>;
/// Makes an event of the calling thread's device. The event measures no times (cudaEventDisableTiming).
[[nodiscard]] CudaEvent cuda_create_event();

/// A stream of one device, with the highest priority. Its work runs concurrently with the work of all other streams,
/// including the legacy default stream. wait_for() and go_before() put two streams in order. `other` is a cudaStream_t,
/// passed as void*.
class CudaStream {
 public:
  explicit CudaStream(int device);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void copy_to_host(void* host, const void* device, std::size_t bytes);
  void copy_to_device(void* device, const void* host, std::size_t bytes);
  void copy_on_device(void* to, const void* from, std::size_t bytes);
  /// Later work on this stream begins after the present work of `other`. Makes this stream's device current.
  void wait_for(void* other) { put_in_order(other, stream_); }
  /// Later work on the stream `other` begins after the present work of this stream. The host does not wait.
  void go_before(void* other) { put_in_order(stream_, other); }
  /// True if the stream takes part in the capture of a CUDA graph.
  [[nodiscard]] bool is_captured() const;
  [[nodiscard]] bool is_done() const;
  /// Blocks until all enqueued work is done. Meanwhile MPI can move the messages of pending requests.
  void synchronize();

  [[nodiscard]] void* handle() const noexcept { return stream_; }

 private:
  void put_in_order(void* first, void* second);

  int device_;
  void* stream_ = nullptr;
  CudaEvent event_;  // recorded again each time
};

}  // namespace mn
