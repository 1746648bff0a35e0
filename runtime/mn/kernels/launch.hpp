/// How many threads and blocks a kernel gets. Only .cu files include this header.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <mn/comm/device/cuda_check.hpp>
#include <mn/kernels/row.hpp>

namespace mn::kernels {

inline int attribute_of_device(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  cuda_check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

/// The most shared memory, in bytes, that a block may use besides the `reserved` bytes of its kernel.
inline std::size_t max_shared_bytes(std::size_t reserved) {
  return static_cast<std::size_t>(attribute_of_device(cudaDevAttrMaxSharedMemoryPerBlockOptin)) - reserved;
}

/// True if rows of `width` elements at these addresses can be loaded as vectors of kSome elements (row.hpp).
inline bool are_aligned(std::initializer_list<const void*> pointers, std::int64_t width) {
  std::uintptr_t bits = 0;
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return bits % kVectorBytes == 0 && width % kSome == 0;
}

/// The number of threads for `work` pieces of work: a multiple of 32, at most `max`.
inline unsigned threads_for(std::int64_t work, std::int64_t max) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((work + 31) / 32 * 32, 32, max));
}

/// One block for each piece of work, up to CUDA's limit; then blocks take further pieces in turn.
inline unsigned blocks_for(std::int64_t work) {
  return static_cast<unsigned>(std::min<std::int64_t>(work, std::numeric_limits<int>::max()));
}

/// Lets the kernel use more than the 48 KiB of shared memory that every kernel may use.
template <class Kernel>
void allow_shared_bytes(Kernel* kernel, std::size_t bytes) {
  if (bytes <= std::size_t{48} << 10) return;
  cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)),
             "cudaFuncSetAttribute", bytes);
}

}  // namespace mn::kernels
