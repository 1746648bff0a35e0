// The backward of GELU on the CPU. Loops compute a block of each row in a copy that stays in the nearest cache.
#include <mn/kernels/linear_gelu_loops.hpp>

#include <algorithm>

#include <mn/kernels/host_math.hpp>

namespace mn::kernels {
namespace {

template <class T>
MN_INLINE void backward_row(const GeluCall& call, std::int64_t row, Real<T>* __restrict sums) {
  using R = Real<T>;
  const T* const x = static_cast<const T*>(call.x) + row * call.width;
  const T* const d_y = static_cast<const T*>(call.d_y) + row * call.width;
  T* const d_x = static_cast<T*>(call.d_x) + row * call.width;
  R wide[kBlock], slope[kBlock];
  for (std::int64_t first = 0; first < call.width; first += kBlock) {
    const std::int64_t n = std::min(kBlock, call.width - first);
    widen_block(x + first, wide, n);
    for (std::int64_t i = 0; i < n; ++i) slope[i] = gelu_derivative(wide[i], [](R z) { return exp_of(z); });
    widen_block(d_y + first, wide, n);
    for (std::int64_t i = 0; i < n; ++i) {
      wide[i] *= slope[i];
      sums[first + i] += wide[i];
    }
    narrow_block<T>(wide, d_x + first, n);
  }
}

template <class T>
MN_INLINE void backward(const GeluCall& call, std::int64_t first, std::int64_t last, std::int64_t part) {
  Real<T>* const sums = static_cast<Real<T>*>(call.partials) + part * call.width;
  for (std::int64_t row = first; row < last; ++row) backward_row<T>(call, row, sums);
}

MN_SIMD void backward_float(const GeluCall& call, std::int64_t first, std::int64_t last, std::int64_t part) {
  backward<float>(call, first, last, part);
}
MN_SIMD void backward_bfloat16(const GeluCall& call, std::int64_t first, std::int64_t last, std::int64_t part) {
  backward<BFloat16>(call, first, last, part);
}

}  // namespace

void gelu_backward_on_host(const GeluCall& call, std::int64_t first, std::int64_t last, std::int64_t part) {
  if (call.dtype == DType::kFloat32) return backward_float(call, first, last, part);
  if (call.dtype == DType::kBFloat16) return backward_bfloat16(call, first, last, part);
  if (call.dtype == DType::kFloat16) return backward<Float16>(call, first, last, part);
  backward<double>(call, first, last, part);
}

}  // namespace mn::kernels
