/// Normalization of a residual stream, fused with the addition before it.
#pragma once

#include <ATen/core/Tensor.h>

namespace mn {

/// The results of layer_norm_residual(): the new residual stream, and its normalization for the next branch.
struct ResidualNorm {
  at::Tensor sum;         ///< x + branch, in the type of x
  at::Tensor normalized;  ///< the norm of the sum, in autocast's type; without autocast in the branch's type
};

/// Adds the output of a branch to a residual stream, and normalizes the sum over its last dimension (C):
///   sum = x + branch,   normalized = (sum − mean) / √(variance + eps) · weight + bias
/// `x` is (…, C). `branch` has the same shape, or is undefined; if undefined, the sum is x. `weight` and `bias` are
/// (C); the bias may be undefined. Tensors are float32, bfloat16, float16 or float64.
///
/// The result equals torch's x + branch followed by layer_norm, both in float32 (in float64 for a float64 stream). On a
/// GPU forward is one pass over memory, and so is backward, which also adds the gradient of `sum`. A float32 stream
/// with a bfloat16 branch costs 12 bytes of memory traffic an element forward and 16 backward. The gradients can't be
/// differentiated. Throws ArgumentError for wrong shapes and types. Local: sends nothing to other ranks.
[[nodiscard]] ResidualNorm layer_norm_residual(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                                               const at::Tensor& bias, double eps = 1e-5);

/// Like layer_norm_residual(), but divides by the root mean square, subtracts no mean, and has no bias:
///   normalized = sum / √(mean(sum²) + eps) · weight
[[nodiscard]] ResidualNorm rms_norm_residual(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                                             double eps = 1e-5);

}  // namespace mn
