/// The sum of a residual stream and a branch, and its normalization, in one pass over memory. This file holds the
/// arguments of the GPU's kernels; a CPU uses libtorch's operators.
///
/// For a row x of C numbers, a branch b, a weight g and a bias h:
///   sum = x + b
///   normalized = (sum − m) r g + h,   m = mean(sum), r = 1/√(mean((sum − m)²) + eps)
/// RMS norm has m = 0 and h = 0. With n = (sum − m) r and gradients ds of sum and dn of normalized:
///   dx = db = ds + r (dn g − mean(dn g) − n mean(dn g n)),   dg = Σ dn n,   dh = Σ dn
/// RMS norm lacks the term mean(dn g). dg and dh are sums over all rows.
///
/// The stream (x, sum, ds, dx) has one type; the branch (b, normalized, dn, db) has this type or, with a float32
/// stream, a 16-bit type. g, h, m, r and their gradients are float, or double if the stream is.
///
/// Cost on a GPU: a warp (for long rows a block) for each row. For a float32 stream and a 16-bit branch, forward reads
/// 6 and writes 6 bytes an element; backward reads 10 and writes 6. Each element is read from memory once, and a second
/// time from a cache. Each block writes one partial sum of dg and dh.
/// Sources: Ba et al. 2016, arXiv:1607.06450; Zhang and Sennrich 2019, arXiv:1910.07467.
#pragma once

#include <cstdint>

#include <mn/core/buffer.hpp>

namespace mn::kernels {

/// The arguments of forward and of backward. All memory lies on one GPU, and matrices are contiguous.
struct NormCall {
  DType stream = DType::kFloat32;      ///< type of x, sum and their gradients
  DType branch = DType::kFloat32;      ///< type of the branch, normalized and their gradients
  std::int64_t rows = 0;               ///< number of rows
  std::int64_t width = 0;              ///< elements of a row, C
  bool aligned = false;                ///< width is a multiple of 4, and pointers are multiples of 16 bytes
  bool centered = true;                ///< false: RMS norm
  double eps = 0;                      ///< added to the mean square
  const void* x = nullptr;             ///< forward: (rows, width); backward: the sum
  const void* added = nullptr;         ///< b; null: no branch, so sum is x
  const void* weight = nullptr;        ///< g: (width)
  const void* bias = nullptr;          ///< h: (width); null: 0
  void* sum = nullptr;                 ///< written by forward if there is a branch
  void* normalized = nullptr;          ///< written by forward
  void* statistics = nullptr;          ///< (rows, 2): m and r; written by forward, read by backward
  const void* d_normalized = nullptr;  ///< dn
  const void* d_sum = nullptr;         ///< ds; null: 0
  void* d_x = nullptr;                 ///< written by backward
  void* d_added = nullptr;             ///< written by backward unless null: d_x in the branch's type
  void* partials = nullptr;            ///< (partials, 2, width): dg and dh; written by backward
};

[[nodiscard]] constexpr bool takes_types(DType stream, DType branch) {
  const bool is_16_bits = branch == DType::kBFloat16 || branch == DType::kFloat16;
  return stream == branch || (stream == DType::kFloat32 && is_16_bits);
}

/// Enqueues forward on `stream` (a cudaStream_t).
void norm_forward_on_device(const NormCall& call, void* stream);
void norm_backward_on_device(const NormCall& call, void* stream);
/// The number of partial sums that backward on the current GPU writes.
[[nodiscard]] std::int64_t norm_partials_on_device(const NormCall& call);

}  // namespace mn::kernels
