// The CUDA runtime's allocations and copies.
#include <cstring>
#include <memory>
#include <vector>

#include "tests/support/stand_in_gpu/capture.hpp"
#include "tests/support/stand_in_gpu/cuda_call.hpp"
#include "tests/support/stand_in_gpu/memory.hpp"

namespace mn::stand_in {
namespace {

/// `free` waits for all GPUs, as CUDA does for the one: without that, hangs of real ones would not show.
cudaError_t free_after_work(void* pointer, MemoryKind kind) {
  if (pointer == nullptr) return cudaSuccess;
  auto lock = machine().lock();
  if (const cudaError_t code = refuse_unsafe(); code != cudaSuccess) return code;
  const int device = memory().device_of(pointer);
  for (int each = 0; each < settings().gpus; ++each) {
    if (device < 0 || device == each) machine().drain(lock, each);
  }
  return memory().release(pointer, kind) ? cudaSuccess : cudaErrorInvalidValue;
}

template <class Allocate>
cudaError_t allocate(void** pointer, const Allocate& allocate_here) {
  const auto lock = machine().lock();
  if (const cudaError_t code = refuse_unsafe(); code != cudaSuccess) return code;
  *pointer = allocate_here();
  return *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

bool fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  if (kind == cudaMemcpyDefault) return true;
  return to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
         from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
}

/// Page-locked and device memory is read and written when the stream comes to the copy. What comes from pageable memory
/// is taken at the call, and a copy to such memory is waited for.
cudaError_t copy(Machine::Lock& lock, const StreamPtr& stream, void* to, const void* from, std::size_t bytes,
                 cudaMemcpyKind kind) {
  const MemoryKind to_kind = memory().kind_of(to);
  const MemoryKind from_kind = memory().kind_of(from);
  if (!fits(kind, to_kind == MemoryKind::kDevice, from_kind == MemoryKind::kDevice)) return cudaErrorInvalidValue;
  const bool to_pageable = to_kind == MemoryKind::kPageable;
  const bool from_pageable = from_kind == MemoryKind::kPageable;
  std::byte* const there = to_pageable ? static_cast<std::byte*>(to) : memory().alias(to, bytes);
  const std::byte* here = from_pageable ? static_cast<const std::byte*>(from) : memory().alias(from, bytes);
  if (there == nullptr || here == nullptr) return cudaErrorInvalidValue;
  if (to_pageable || from_pageable) {
    if (const cudaError_t code = refuse_captured(stream); code != cudaSuccess) return code;
  }
  std::shared_ptr<std::vector<std::byte>> taken;
  if (from_pageable) {
    taken = std::make_shared<std::vector<std::byte>>(here, here + bytes);
    here = taken->data();
  }
  const Op op = [there, here, bytes, taken] { std::memmove(there, here, bytes); };
  if (const cudaError_t code = put(stream, [op] { return op; }); code != cudaSuccess) return code;
  if (to_pageable) {
    tell_wait("cudaMemcpyAsync");
    machine().wait(lock, {{stream, stream->submitted}});
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace mn::stand_in

using namespace mn::stand_in;

extern "C" {

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return cuda_call("cudaMalloc", cudaErrorMemoryAllocation, [&] {
    if (bytes == 0) {
      *pointer = nullptr;
      return cudaSuccess;
    }
    return allocate(pointer, [&] { return memory().allocate_device(bytes, current_device()); });
  });
}

cudaError_t cudaFree(void* pointer) {
  if (pointer != nullptr) tell_wait("cudaFree");
  return cuda_call("cudaFree", cudaErrorInvalidValue, [&] { return free_after_work(pointer, MemoryKind::kDevice); });
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cuda_call("cudaMallocHost", cudaErrorMemoryAllocation,
                   [&] { return allocate(pointer, [&] { return memory().allocate_pinned(bytes); }); });
}

cudaError_t cudaFreeHost(void* pointer) {
  if (pointer != nullptr) tell_wait("cudaFreeHost");
  return cuda_call("cudaFreeHost", cudaErrorInvalidValue,
                   [&] { return free_after_work(pointer, MemoryKind::kPinned); });
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  return cuda_call("cudaHostRegister", cudaErrorMemoryAllocation, [&] {
    return memory().register_host(pointer, bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  tell_wait("cudaHostUnregister");
  return cuda_call("cudaHostUnregister", cudaErrorInvalidValue, [&] {
    const cudaError_t code = free_after_work(pointer, MemoryKind::kRegistered);
    return code == cudaErrorInvalidValue ? cudaErrorHostMemoryNotRegistered : code;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return cuda_call("cudaPointerGetAttributes", cudaErrorInvalidValue, [&] {
    const MemoryKind kind = memory().kind_of(pointer);
    *attributes = {};
    attributes->type = kind == MemoryKind::kDevice     ? cudaMemoryTypeDevice
                       : kind == MemoryKind::kPageable ? cudaMemoryTypeUnregistered
                                                       : cudaMemoryTypeHost;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return cuda_call("cudaMemcpyAsync", cudaErrorInvalidValue, [&] {
    if (bytes == 0) return cudaSuccess;
    auto lock = machine().lock();
    const StreamPtr found = machine().find(stream, current_device());
    return found ? copy(lock, found, to, from, bytes, kind) : cudaErrorInvalidResourceHandle;
  });
}

}  // extern "C"
