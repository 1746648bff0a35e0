/// The teams of GPU threads that work on one row (row.hpp): a block or a warp. Only .cu files include this header.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <mn/kernels/row.hpp>

namespace mn::kernels {

/// Returns the `value` of the warp's lane (own lane ^ mask).
template <class V>
__device__ V from_lane(const V& value, unsigned mask) {
  static_assert(sizeof(V) % sizeof(unsigned) == 0 && std::is_trivially_copyable_v<V>);
  V result;
  for (unsigned i = 0; i < sizeof(V) / sizeof(unsigned); ++i) {
    reinterpret_cast<unsigned*>(&result)[i] =
        __shfl_xor_sync(~0U, reinterpret_cast<const unsigned*>(&value)[i], static_cast<int>(mask));
  }
  return result;
}

/// Merges the values of all lanes of a warp. In each step a lane computes merge(a, b), and its partner merge(b, a). All
/// lanes get the same bits, because merge() is commutative.
template <class V, class Merge>
__device__ V reduce_in_warp(V value, const Merge& merge) {
  for (unsigned mask = 16; mask > 0; mask /= 2) value = merge(value, from_lane(value, mask));
  return value;
}

/// For 16-bit elements exp() is the hardware's function: its error is far smaller than the rounding of the elements.
template <class T>
struct DeviceMath {
  static __device__ float exp(float x) {
    if constexpr (sizeof(T) == 2)
      return __expf(x);
    else
      return expf(x);
  }
  static __device__ double exp(double x) { return ::exp(x); }
  static __device__ float log(float x) { return logf(x); }
  static __device__ double log(double x) { return ::log(x); }
  static __device__ float inverse_root(float x) { return rsqrtf(x); }
  static __device__ double inverse_root(double x) { return ::rsqrt(x); }

  template <class To>
  static __device__ To narrow(Real<To> value) {
    if constexpr (std::is_same_v<To, BFloat16>)
      return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
    else if constexpr (std::is_same_v<To, Float16>)
      return {__half_as_ushort(__float2half_rn(value))};
    else
      return value;
  }
};

/// The team of all threads of a block; their number must be a multiple of 32.
template <class T>
struct BlockTeam : DeviceMath<T> {
  [[nodiscard]] __device__ unsigned size() const { return blockDim.x; }

  template <class Work>
  __device__ void each(const Work& work) const {
    work(threadIdx.x);
    __syncthreads();
  }
  template <class Work>
  __device__ void once(const Work& work) const {
    if (threadIdx.x == 0) work();
  }
  template <class V, class Work, class Merge>
  __device__ V reduce(const V& identity, const Work& work, const Merge& merge) const {
    __shared__ alignas(16) unsigned char memory[32 * sizeof(V)];
    V* const parts = reinterpret_cast<V*>(memory);
    const V own = reduce_in_warp(work(threadIdx.x), merge);
    __syncthreads();  // all threads have read the parts of an earlier reduction
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
    __syncthreads();
    const unsigned lane = threadIdx.x % 32;
    return reduce_in_warp(lane < blockDim.x / 32 ? parts[lane] : identity, merge);
  }
};

template <class T>
struct WarpTeam : DeviceMath<T> {
  [[nodiscard]] __device__ unsigned size() const { return 32; }

  template <class Work>
  __device__ void each(const Work& work) const {
    work(threadIdx.x % 32);
    __syncwarp();
  }
  template <class Work>
  __device__ void once(const Work& work) const {
    if (threadIdx.x % 32 == 0) work();
  }
  template <class V, class Work, class Merge>
  __device__ V reduce(const V& /*identity*/, const Work& work, const Merge& merge) const {
    const V own = work(threadIdx.x % 32);
    __syncwarp();
    return reduce_in_warp(own, merge);
  }
};

}  // namespace mn::kernels
