/// libtorch's memory on the test device: what its caching allocators promise on a GPU, and no more.
///
/// Invariants:
/// 1. Memory that is freed goes to the next allocation of that size on the same stream, at once and without a wait.
///    Before that, the stream fills it with NaN. So what another stream still does there is seen, unless
///    record_stream() has said so: then the memory is taken again only when that stream is done with it.
/// 2. Page-locked memory is taken again when the copies that it took part in are done.
/// 3. Every allocation is one of cudaMalloc's of its own, so an access past its end is found.
/// 4. Nothing is returned to CUDA: cudaFree would wait.
///
/// Source: torch.cuda.CUDACachingAllocator, "Memory management" in PyTorch's CUDA semantics.
#pragma once

#include <cstddef>

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

namespace mn::test_device {

/// Of the calling thread's device, in the order of its current stream.
[[nodiscard]] at::Allocator& device_allocator();
/// Page-locked memory of the host.
[[nodiscard]] at::Allocator& pinned_allocator();

/// The stream uses memory of an allocator above until it is done with what it holds when the memory is freed.
/// Memory of others is left alone.
void record_stream(const c10::DataPtr& data, c10::Stream stream);

[[nodiscard]] bool is_pinned(const void* memory);

[[nodiscard]] inline bool is_ours(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::PrivateUse1;
}

/// The tensor's elements as its device sees them: a tensor of the CPU that owns nothing. Only for kernels.
[[nodiscard]] at::Tensor on_device(const at::Tensor& tensor);

/// Bytes of tensors on the device: now, and at most since reset_peak_bytes().
[[nodiscard]] std::size_t bytes_in_use();
[[nodiscard]] std::size_t peak_bytes();
void reset_peak_bytes();

}  // namespace mn::test_device
