/// Multiplies 16-bit tensors by factors. Internal.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>

namespace mn {

/// A tensor of `factor`, for mul() and mul_() of a dense tensor. On CPUs libtorch's mul_(double) first rounds the
/// number to the tensor's dtype: 1e-8 becomes 0 in float16, and 1.0039 becomes 1 in bfloat16. mul_(tensor) rounds only
/// the product.
inline at::Tensor exact_factor(double factor) { return at::scalar_tensor(factor, at::kDouble); }

/// Multiplies a sparse tensor by `factor`. libtorch itself would round the factor for every 16-bit sparse tensor.
inline at::Tensor times_factor(const at::Tensor& sparse, double factor) {
  if (sparse.element_size() != 2) return sparse.mul(factor);
  return sparse.to(at::kFloat).mul(factor).to(sparse.scalar_type());
}

}  // namespace mn
