/// Factors of 16-bit tensors. Internal.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>

namespace mn {

/// `factor` for mul() and mul_() of a dense tensor. On CPUs mul_(double) of libtorch rounds the number to the tensor's
/// dtype first: in float16 1e-8 is 0, and 1.0039 is 1 in bfloat16. mul_(tensor) rounds the product only.
inline at::Tensor exact_factor(double factor) { return at::scalar_tensor(factor, at::kDouble); }

/// A sparse tensor times `factor`, which libtorch rounds for every 16-bit sparse tensor.
inline at::Tensor times_factor(const at::Tensor& sparse, double factor) {
  if (sparse.element_size() != 2) return sparse.mul(factor);
  return sparse.to(at::kFloat).mul(factor).to(sparse.scalar_type());
}

}  // namespace mn
