/// The backward of GELU behind a linear layer, in one pass over memory: the gradient of GELU's input, and the sums of
/// its columns, which are the gradient of the layer's bias. This file holds the arguments of the GPU's kernel; a CPU
/// uses libtorch's operators.
///
/// GELU in its approximation by tanh is x s, with s = 1 / (1 + e^−z) and z = √(8/π) (x + 0.044715 x³). For the gradient
/// dy of the output:
///   dx = dy (s + x s (1 − s) dz/dx),   db = Σ dx, a sum over rows of the dx before they are rounded
///
/// Cost on a GPU: 6 bytes of memory traffic an element in 16 bits (x and dy are read, dx is written). libtorch's two
/// kernels cost 8, because the second reads dx again. db comes as one partial sum for each row of blocks.
/// Source: Hendrycks and Gimpel 2016, arXiv:1606.08415.
#pragma once

#include <cstdint>

#include <mn/core/buffer.hpp>

namespace mn::kernels {

/// All memory lies on one GPU, and matrices are contiguous.
struct GeluCall {
  DType dtype = DType::kFloat32;  ///< type of x, dy and dx
  std::int64_t rows = 0;          ///< number of rows
  std::int64_t width = 0;         ///< elements of a row
  bool aligned = false;           ///< width is a multiple of 4, and pointers are multiples of 16 bytes
  const void* x = nullptr;        ///< (rows, width)
  const void* d_y = nullptr;      ///< (rows, width)
  void* d_x = nullptr;            ///< (rows, width); written
  std::int64_t parts = 0;         ///< number of partial sums
  void* partials = nullptr;       ///< (parts, width) float, double if dtype is; written
};

/// The derivative of GELU at x. `exp` takes only numbers that are not positive.
template <class R, class Exp>
constexpr R gelu_derivative(R x, const Exp& exp) {
  constexpr R kLinear = static_cast<R>(1.5957691216057308L);  // √(8/π)
  constexpr R kCubic = kLinear * static_cast<R>(0.044715L);
  const R z = x * (kLinear + kCubic * x * x);
  const R e = exp(z < 0 ? z : -z);
  const R inverse = 1 / (1 + e);
  const R s = z < 0 ? e * inverse : inverse;
  return s + x * e * inverse * inverse * (kLinear + 3 * kCubic * x * x);
}

/// Enqueues backward on `stream` (a cudaStream_t).
void gelu_backward_on_device(const GeluCall& call, void* stream);
/// The number of partial sums that backward on the current GPU writes.
[[nodiscard]] std::int64_t gelu_partials_on_device(const GeluCall& call);

}  // namespace mn::kernels
