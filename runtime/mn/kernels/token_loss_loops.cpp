// The token loss on the CPU. Loops compute each row in blocks that stay in the nearest cache.
#include <mn/kernels/token_loss_loops.hpp>

#include <algorithm>
#include <limits>

#include <mn/kernels/host_math.hpp>
#include <mn/kernels/token_loss_row.hpp>

namespace mn::kernels {
namespace {

template <class T>
MN_INLINE Softmax<Real<T>> softmax_of(const T* row, std::int64_t count, bool with_total) {
  using R = Real<T>;
  Softmax<R> all;
  R x[kBlock];
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t n = std::min(kBlock, count - first);
    widen_block(row + first, x, n);
    if (with_total) all.total += sum_of<R>(n, [&](std::int64_t i) { return x[i]; });
    const R max = max_of(x, n, all.max);
    const R shift = shift_of(max);
    for (std::int64_t i = 0; i < n; ++i) x[i] = exp_of(x[i] - shift);
    all.sum = all.sum * std::exp(all.max - shift) + sum_of<R>(n, [&](std::int64_t i) { return x[i]; });
    all.max = max;
  }
  return all;
}

template <class T>
MN_INLINE void write_gradient(T* row, std::int64_t count, std::int64_t target,
                              const GradientFactors<Real<T>>& factors) {
  using R = Real<T>;
  R x[kBlock];
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t n = std::min(kBlock, count - first);
    widen_block(row + first, x, n);
    for (std::int64_t i = 0; i < n; ++i) x[i] = exp_of(x[i] - factors.shift) * factors.probability - factors.uniform;
    if (target >= first && target < first + n) x[target - first] -= factors.target;
    narrow_block<T>(x, row + first, n);
  }
}

/// Computes the loss and the gradient of one row. Returns false if the row's target is outside of the vocabulary.
template <class T>
MN_INLINE bool compute_row(const TokenLossCall& call, std::int64_t index) {
  using R = Real<T>;
  T* const row = static_cast<T*>(call.logits) + index * call.row_stride;
  R& loss = static_cast<R*>(call.losses)[index];
  const R weight = weight_of<R>(call, index);
  if (weight == 0) {
    loss = 0;
    if (call.gradient) std::fill_n(row, call.vocabulary, T{});
    return true;
  }
  const std::int64_t target = call.targets[index];
  const bool is_valid = target >= 0 && target < call.vocabulary;
  const R target_logit = is_valid ? widen(row[target]) : std::numeric_limits<R>::quiet_NaN();
  const Softmax<R> all = softmax_of(row, call.vocabulary, call.smoothing != 0);
  const R log_sum = all.max + std::log(all.sum);
  const R inverse = *static_cast<const R*>(call.inverse);
  loss = weight * inverse * loss_of_row(call, log_sum, target_logit, all.total);
  if (!call.gradient) return is_valid;
  const R scale = is_valid ? weight * (call.scaled ? inverse : R{1}) : target_logit;
  write_gradient(row, call.vocabulary, target, gradient_factors(call, all, log_sum, scale));
  return is_valid;
}

template <class T>
MN_INLINE std::int64_t compute_rows(const TokenLossCall& call, std::int64_t first, std::int64_t last) {
  std::int64_t wrong = -1;
  for (std::int64_t row = first; row < last; ++row)
    if (!compute_row<T>(call, row) && wrong < 0) wrong = row;
  return wrong;
}

MN_SIMD std::int64_t compute_float16(const TokenLossCall& call, std::int64_t first, std::int64_t last) {
  return compute_rows<Float16>(call, first, last);
}
MN_SIMD std::int64_t compute_bfloat16(const TokenLossCall& call, std::int64_t first, std::int64_t last) {
  return compute_rows<BFloat16>(call, first, last);
}
MN_SIMD std::int64_t compute_float32(const TokenLossCall& call, std::int64_t first, std::int64_t last) {
  return compute_rows<float>(call, first, last);
}

template <class R>
void weigh(const TokenLossCall& call) {
  R total = 0;
  for (std::int64_t row = 0; row < call.rows; ++row) total += weight_of<R>(call, row);
  *static_cast<R*>(call.inverse) = inverse_weight(call, total);
}

template <class T>
void scale(const ScaleRowsCall& call, std::int64_t first, std::int64_t last) {
  const auto* const factors = static_cast<const Real<T>*>(call.factors);
  for (std::int64_t index = first; index < last; ++index) {
    const Real<T> factor = factors[call.count == 1 ? 0 : index];
    if (factor == 1) continue;
    T* const row = static_cast<T*>(call.data) + index * call.row_stride;
    for (std::int64_t i = 0; i < call.columns; ++i) row[i] = round_to<T>(widen(row[i]) * factor);
  }
}

}  // namespace

void weigh_rows_on_host(const TokenLossCall& call) {
  call.dtype == DType::kFloat64 ? weigh<double>(call) : weigh<float>(call);
}

std::int64_t token_loss_on_host(const TokenLossCall& call, std::int64_t first, std::int64_t last) {
  if (call.dtype == DType::kFloat16) return compute_float16(call, first, last);
  if (call.dtype == DType::kBFloat16) return compute_bfloat16(call, first, last);
  if (call.dtype == DType::kFloat32) return compute_float32(call, first, last);
  return compute_rows<double>(call, first, last);
}

void scale_rows_on_host(const ScaleRowsCall& call, std::int64_t first, std::int64_t last) {
  for_float_type(call.dtype, [&](auto element) {
    scale<decltype(element)>(call, first, last);
    return true;
  });
}

}  // namespace mn::kernels
