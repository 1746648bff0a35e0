/// Loops over floats that compilers turn into SIMD instructions. Callers are functions marked MN_SIMD in sources that
/// mn_optimize() compiles; all functions here are inlined into them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <mn/kernels/row.hpp>

// The compiler makes several versions of a function marked MN_SIMD, and the dynamic linker picks the version with the
// widest vectors that the CPU supports. CMake sets MN_TARGET_CLONES if the compiler can make several versions.
#ifdef MN_TARGET_CLONES
#define MN_SIMD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MN_SIMD
#endif
#define MN_INLINE inline __attribute__((always_inline))

namespace mn::kernels {

/// The number of elements that loops convert and compute at a time. A block of this size stays in the nearest cache.
inline constexpr std::int64_t kBlock = 512;
/// The number of sums that a loop adds up side by side. The order of additions is fixed, so all CPUs compute the same
/// bits.
inline constexpr std::int64_t kLanes = 16;

/// Computes exp(x) for x ≤ 0 or NaN, with an error of at most 2 units in the last place. Returns 0 if the result would
/// be below the smallest normal number. Source: Cephes, expf.c (Moshier 1992): x = n ln 2 + r, exp(x) = 2^n exp(r).
MN_INLINE float exp_of(float x) {
  constexpr float kToInteger = 0x1.8p23F;  // the sum's last bits are the integer nearest to the other summand
  const float shifted = x * 0x1.715476p0F + kToInteger;
  const float n = shifted - kToInteger;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1;
  const float y = std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + (std::bit_cast<std::uint32_t>(shifted) << 23));
  const float flushed = x < -87.3F ? 0.0F : y;
  return x == x ? flushed : x;
}
MN_INLINE double exp_of(double x) { return std::exp(x); }

/// Converts a block of `count` elements to the type in which kernels compute: to[i] = from[i].
template <class T>
MN_INLINE void widen_block(const T* __restrict from, Real<T>* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = widen(from[i]);
}
template <class T>
MN_INLINE void narrow_block(const Real<T>* __restrict from, T* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = round_to<T>(from[i]);
}

/// Returns the sum of f(i) for all i below `count`.
template <class R, class F>
MN_INLINE R sum_of(std::int64_t count, const F& f) {
  R lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += f(i + lane);
  for (; i < count; ++i) lanes[i % kLanes] += f(i);
  R sum = 0;
  for (const R& lane : lanes) sum += lane;
  return sum;
}

/// Returns the largest of `least` and all x[i]; ignores NaNs.
template <class R>
MN_INLINE R max_of(const R* x, std::int64_t count, R least) {
  R lanes[kLanes];
  for (R& lane : lanes) lane = least;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  for (; i < count; ++i) least = x[i] > least ? x[i] : least;
  for (const R& lane : lanes) least = lane > least ? lane : least;
  return least;
}

}  // namespace mn::kernels
