// Layer norm and RMS norm on the CPU. Loops compute each row in a copy that stays in the nearest cache.
#include <mn/kernels/layer_norm_loops.hpp>

#include <vector>

#include <mn/kernels/host_math.hpp>

namespace mn::kernels {
namespace {

/// Sets r[i] to the sum of x and branch in one row. If there is a branch, also writes this sum to the call's `sum`.
template <class S, class B>
MN_INLINE void add_branch(const NormCall& call, std::int64_t begin, Real<S>* r) {
  const S* const x = static_cast<const S*>(call.x) + begin;
  widen_block(x, r, call.width);
  if (call.added == nullptr) return;
  const B* const b = static_cast<const B*>(call.added) + begin;
  S* const sum = static_cast<S*>(call.sum) + begin;
  for (std::int64_t i = 0; i < call.width; ++i) {
    sum[i] = round_to<S>(r[i] + static_cast<Real<S>>(widen(b[i])));
    r[i] = widen(sum[i]);
  }
}

template <class S, class B>
MN_INLINE void forward(const NormCall& call, std::int64_t first, std::int64_t last) {
  using R = Real<S>;
  std::vector<R> row(static_cast<std::size_t>(call.width));
  R* const r = row.data();
  const R* const g = static_cast<const R*>(call.weight);
  const R* const h = static_cast<const R*>(call.bias);
  const std::int64_t width = call.width;
  for (std::int64_t index = first; index < last; ++index) {
    add_branch<S, B>(call, index * width, r);
    const R n = static_cast<R>(width);
    const R mean = call.centered ? sum_of<R>(width, [&](std::int64_t i) { return r[i]; }) / n : R{0};
    const R squares = sum_of<R>(width, [&](std::int64_t i) { return (r[i] - mean) * (r[i] - mean); });
    const R scale = 1 / std::sqrt(squares / n + static_cast<R>(call.eps));
    static_cast<R*>(call.statistics)[2 * index] = mean;
    static_cast<R*>(call.statistics)[2 * index + 1] = scale;
    B* const y = static_cast<B*>(call.normalized) + index * width;
    if (h == nullptr) {
      for (std::int64_t i = 0; i < width; ++i) y[i] = round_to<B>(static_cast<Real<B>>((r[i] - mean) * scale * g[i]));
    } else {
      for (std::int64_t i = 0; i < width; ++i)
        y[i] = round_to<B>(static_cast<Real<B>>((r[i] - mean) * scale * g[i] + h[i]));
    }
  }
}

/// Memory for the numbers n and dn g (layer_norm_call.hpp) of one row.
template <class R>
struct Scratch {
  explicit Scratch(std::int64_t width) : n(static_cast<std::size_t>(width)), dng(static_cast<std::size_t>(width)) {}
  std::vector<R> n, dng;
};

template <class S, class B>
MN_INLINE void backward_row(const NormCall& call, std::int64_t index, Real<S>* __restrict n, Real<S>* __restrict dng,
                            Real<S>* __restrict dg, Real<S>* __restrict dh) {
  using R = Real<S>;
  const std::int64_t width = call.width, begin = index * width;
  const R* const g = static_cast<const R*>(call.weight);
  const R mean = static_cast<const R*>(call.statistics)[2 * index];
  const R scale = static_cast<const R*>(call.statistics)[2 * index + 1];
  const S* const x = static_cast<const S*>(call.x) + begin;
  const B* const dn = static_cast<const B*>(call.d_normalized) + begin;
  for (std::int64_t i = 0; i < width; ++i) {
    const R d = static_cast<R>(widen(dn[i]));
    n[i] = (widen(x[i]) - mean) * scale;
    dng[i] = d * g[i];
    dg[i] += d * n[i];
    dh[i] += d;
  }
  const R count = static_cast<R>(width);
  const R first = call.centered ? sum_of<R>(width, [&](std::int64_t i) { return dng[i]; }) / count : R{0};
  const R second = sum_of<R>(width, [&](std::int64_t i) { return dng[i] * n[i]; }) / count;
  for (std::int64_t i = 0; i < width; ++i) dng[i] = scale * (dng[i] - first - n[i] * second);
  if (call.d_sum != nullptr) {
    const S* const ds = static_cast<const S*>(call.d_sum) + begin;
    for (std::int64_t i = 0; i < width; ++i) dng[i] += widen(ds[i]);
  }
  narrow_block<S>(dng, static_cast<S*>(call.d_x) + begin, width);
  if (call.d_added == nullptr) return;
  B* const db = static_cast<B*>(call.d_added) + begin;
  for (std::int64_t i = 0; i < width; ++i) db[i] = round_to<B>(static_cast<Real<B>>(dng[i]));
}

template <class S, class B>
MN_INLINE void backward(const NormCall& call, std::int64_t first, std::int64_t last, std::int64_t partial) {
  Scratch<Real<S>> scratch(call.width);
  Real<S>* const dg = static_cast<Real<S>*>(call.partials) + partial * 2 * call.width;
  for (std::int64_t row = first; row < last; ++row)
    backward_row<S, B>(call, row, scratch.n.data(), scratch.dng.data(), dg, dg + call.width);
}

MN_SIMD void forward_float(const NormCall& call, std::int64_t first, std::int64_t last) {
  forward<float, float>(call, first, last);
}
MN_SIMD void forward_float_bfloat16(const NormCall& call, std::int64_t first, std::int64_t last) {
  forward<float, BFloat16>(call, first, last);
}
MN_SIMD void backward_float(const NormCall& call, std::int64_t first, std::int64_t last, std::int64_t partial) {
  backward<float, float>(call, first, last, partial);
}
MN_SIMD void backward_float_bfloat16(const NormCall& call, std::int64_t first, std::int64_t last,
                                     std::int64_t partial) {
  backward<float, BFloat16>(call, first, last, partial);
}

struct Loops {
  DType stream, branch;
  void (*forward)(const NormCall&, std::int64_t, std::int64_t);
  void (*backward)(const NormCall&, std::int64_t, std::int64_t, std::int64_t);
};
/// The loops for each pair of types. The usual pairs are compiled in several versions for SIMD, the other pairs in one.
constexpr Loops kLoops[] = {
    {DType::kFloat32, DType::kFloat32, forward_float, backward_float},
    {DType::kFloat32, DType::kBFloat16, forward_float_bfloat16, backward_float_bfloat16},
    {DType::kFloat32, DType::kFloat16, forward<float, Float16>, backward<float, Float16>},
    {DType::kBFloat16, DType::kBFloat16, forward<BFloat16, BFloat16>, backward<BFloat16, BFloat16>},
    {DType::kFloat16, DType::kFloat16, forward<Float16, Float16>, backward<Float16, Float16>},
    {DType::kFloat64, DType::kFloat64, forward<double, double>, backward<double, double>}};

const Loops& loops_for(const NormCall& call) {
  std::size_t i = 0;
  while (kLoops[i].stream != call.stream || kLoops[i].branch != call.branch) ++i;  // takes_types() holds
  return kLoops[i];
}

}  // namespace

void norm_forward_on_host(const NormCall& call, std::int64_t first, std::int64_t last) {
  loops_for(call).forward(call, first, last);
}

void norm_backward_on_host(const NormCall& call, std::int64_t first, std::int64_t last, std::int64_t partial) {
  loops_for(call).backward(call, first, last, partial);
}

}  // namespace mn::kernels
