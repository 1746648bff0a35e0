// Batch normalization on the CPU. Loops compute a block of a row at a time, in a copy that stays in the nearest cache.
#include <mn/kernels/batch_norm_loops.hpp>

#include <algorithm>

#include <mn/kernels/host_math.hpp>

namespace mn::kernels {
namespace {

/// Gives access to one number for each channel, such as the mean. If channels are adjacent (kLast), number i belongs to
/// element i of a row. Otherwise all elements of a row belong to one channel, and have one number.
template <class R, bool kLast>
struct PerChannel {
  MN_INLINE PerChannel(const void* numbers, std::int64_t channel)
      : from(static_cast<const R*>(numbers) + channel), first(*from) {}
  MN_INLINE R operator[](std::int64_t i) const { return kLast ? from[i] : first; }

  const R* from;
  R first;
};

/// A block of a row: `count` elements from `begin` on. The first element belongs to channel `channel`.
struct Block {
  std::int64_t begin, count, channel;
};

/// Sets y[i] to (x − m) r w + b.
template <class T, bool kLast>
MN_INLINE void normalize(const BatchNormCall& call, const Block& block, Real<T>* __restrict y) {
  using Numbers = PerChannel<Real<T>, kLast>;
  const Numbers mean(call.mean, block.channel), invstd(call.invstd, block.channel);
  const Numbers weight(call.weight, block.channel), bias(call.bias, block.channel);
  const T* const x = static_cast<const T*>(call.x) + block.begin;
  for (std::int64_t i = 0; i < block.count; ++i) y[i] = (widen(x[i]) - mean[i]) * (invstd[i] * weight[i]) + bias[i];
}

template <class T, bool kLast>
MN_INLINE void forward_block(const BatchNormCall& call, const Block& block) {
  using R = Real<T>;
  R y[kBlock];
  normalize<T, kLast>(call, block, y);
  if (call.added != nullptr) {
    const T* const a = static_cast<const T*>(call.added) + block.begin;
    for (std::int64_t i = 0; i < block.count; ++i) y[i] += widen(a[i]);
  }
  if (call.relu)
    for (std::int64_t i = 0; i < block.count; ++i) y[i] = y[i] < 0 ? R{0} : y[i];
  narrow_block<T>(y, static_cast<T*>(call.y) + block.begin, block.count);
}

/// Sets g[i] to dy, or to 0 if ReLU made y 0.
template <class T, bool kLast>
MN_INLINE void mask_gradient(const BatchNormCall& call, const Block& block, Real<T>* __restrict g) {
  using R = Real<T>;
  widen_block(static_cast<const T*>(call.d_y) + block.begin, g, block.count);
  if (!call.relu) return;
  R y[kBlock];
  if (call.mask != nullptr)
    widen_block(static_cast<const T*>(call.mask) + block.begin, y, block.count);
  else
    normalize<T, kLast>(call, block, y);
  for (std::int64_t i = 0; i < block.count; ++i) g[i] = y[i] <= 0 ? R{0} : g[i];
}

/// Adds the block's sums to partial sum `part`. If channels are not adjacent, adds them to the partial sum of the
/// block's image instead.
template <class T, bool kLast>
MN_INLINE void sum_block(const BatchNormCall& call, const Block& block, std::int64_t part) {
  using R = Real<T>;
  R g[kBlock];
  mask_gradient<T, kLast>(call, block, g);
  if (call.d_added != nullptr) narrow_block<T>(g, static_cast<T*>(call.d_added) + block.begin, block.count);
  const T* const x = static_cast<const T*>(call.x) + block.begin;
  const PerChannel<R, kLast> mean(call.mean, block.channel), invstd(call.invstd, block.channel);
  const std::int64_t image = kLast ? part : block.begin / (call.channels * call.inner);
  R* __restrict db = static_cast<R*>(call.partials) + image * 2 * call.channels + block.channel;
  R* __restrict dw = db + call.channels;
  if constexpr (kLast) {
    for (std::int64_t i = 0; i < block.count; ++i) {
      db[i] += g[i];
      dw[i] += g[i] * ((widen(x[i]) - mean[i]) * invstd[i]);
    }
  } else {
    *db += sum_of<R>(block.count, [&](std::int64_t i) { return g[i]; });
    *dw += invstd[0] * sum_of<R>(block.count, [&](std::int64_t i) { return g[i] * (widen(x[i]) - mean[i]); });
  }
}

template <class T, bool kLast>
MN_INLINE void backward_block(const BatchNormCall& call, const Block& block) {
  using R = Real<T>;
  using Numbers = PerChannel<R, kLast>;
  R g[kBlock];
  mask_gradient<T, kLast>(call, block, g);
  const Numbers mean(call.mean, block.channel), invstd(call.invstd, block.channel);
  const Numbers weight(call.weight, block.channel);
  if (call.sums != nullptr) {
    const T* const x = static_cast<const T*>(call.x) + block.begin;
    const Numbers db(call.sums, block.channel), dw(call.sums, call.channels + block.channel);
    const R share = static_cast<R>(1 / call.count);
    for (std::int64_t i = 0; i < block.count; ++i)
      g[i] -= share * db[i] + (widen(x[i]) - mean[i]) * (share * invstd[i] * dw[i]);
  }
  for (std::int64_t i = 0; i < block.count; ++i) g[i] *= invstd[i] * weight[i];
  narrow_block<T>(g, static_cast<T*>(call.d_x) + block.begin, block.count);
}

/// Calls kWork(call, block, arguments…) for all blocks of the rows [first, last).
template <bool kLast, auto kWork, class... Arguments>
MN_INLINE void for_blocks(const BatchNormCall& call, std::int64_t first, std::int64_t last, Arguments... arguments) {
  const std::int64_t length = kLast ? call.channels : call.inner;
  for (std::int64_t row = first; row < last; ++row)
    for (std::int64_t i = 0; i < length; i += kBlock)
      kWork(call, Block{row * length + i, std::min(kBlock, length - i), kLast ? i : row % call.channels}, arguments...);
}

template <class T>
MN_INLINE void forward_rows(const BatchNormCall& call, std::int64_t first, std::int64_t last) {
  call.inner > 1 ? for_blocks<false, forward_block<T, false>>(call, first, last)
                 : for_blocks<true, forward_block<T, true>>(call, first, last);
}
template <class T>
MN_INLINE void sum_rows(const BatchNormCall& call, std::int64_t first, std::int64_t last, std::int64_t part) {
  call.inner > 1 ? for_blocks<false, sum_block<T, false>>(call, first, last, part)
                 : for_blocks<true, sum_block<T, true>>(call, first, last, part);
}
template <class T>
MN_INLINE void backward_rows(const BatchNormCall& call, std::int64_t first, std::int64_t last) {
  call.inner > 1 ? for_blocks<false, backward_block<T, false>>(call, first, last)
                 : for_blocks<true, backward_block<T, true>>(call, first, last);
}

MN_SIMD void forward_float(const BatchNormCall& call, std::int64_t first, std::int64_t last) {
  forward_rows<float>(call, first, last);
}
MN_SIMD void forward_bfloat16(const BatchNormCall& call, std::int64_t first, std::int64_t last) {
  forward_rows<BFloat16>(call, first, last);
}
MN_SIMD void sum_float(const BatchNormCall& call, std::int64_t first, std::int64_t last, std::int64_t part) {
  sum_rows<float>(call, first, last, part);
}
MN_SIMD void sum_bfloat16(const BatchNormCall& call, std::int64_t first, std::int64_t last, std::int64_t part) {
  sum_rows<BFloat16>(call, first, last, part);
}
MN_SIMD void backward_float(const BatchNormCall& call, std::int64_t first, std::int64_t last) {
  backward_rows<float>(call, first, last);
}
MN_SIMD void backward_bfloat16(const BatchNormCall& call, std::int64_t first, std::int64_t last) {
  backward_rows<BFloat16>(call, first, last);
}

struct Loops {
  DType dtype;
  void (*forward)(const BatchNormCall&, std::int64_t, std::int64_t);
  void (*sums)(const BatchNormCall&, std::int64_t, std::int64_t, std::int64_t);
  void (*backward)(const BatchNormCall&, std::int64_t, std::int64_t);
};
/// The loops for each type. Loops for the usual types are compiled in several versions for SIMD, all other loops in
/// one.
constexpr Loops kLoops[] = {
    {DType::kFloat32, forward_float, sum_float, backward_float},
    {DType::kBFloat16, forward_bfloat16, sum_bfloat16, backward_bfloat16},
    {DType::kFloat16, forward_rows<Float16>, sum_rows<Float16>, backward_rows<Float16>},
    {DType::kFloat64, forward_rows<double>, sum_rows<double>, backward_rows<double>},
};

const Loops& loops_for(const BatchNormCall& call) {
  std::size_t i = 0;
  while (kLoops[i].dtype != call.dtype) ++i;  // float_dtype() has checked the type
  return kLoops[i];
}

}  // namespace

void batch_norm_forward_on_host(const BatchNormCall& call, std::int64_t first, std::int64_t last) {
  loops_for(call).forward(call, first, last);
}

void batch_norm_sums_on_host(const BatchNormCall& call, std::int64_t first, std::int64_t last, std::int64_t part) {
  loops_for(call).sums(call, first, last, part);
}

void batch_norm_backward_on_host(const BatchNormCall& call, std::int64_t first, std::int64_t last) {
  loops_for(call).backward(call, first, last);
}

}  // namespace mn::kernels
