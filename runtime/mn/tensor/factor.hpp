/// Multiplies 16-bit tensors by factors without rounding the factor. Internal.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>

namespace mn {

/// Returns `factor` as a tensor, for mul() or mul_() of a dense tensor: then only the product is rounded. On CPUs
/// libtorch's mul_(double) would first round the factor to the tensor's dtype: 1e-8 would become 0 in float16.
inline at::Tensor exact_factor(double factor) { return at::scalar_tensor(factor, at::kDouble); }

/// Multiplies a sparse tensor by `factor`. libtorch would round the factor if the tensor has 16 bits.
inline at::Tensor times_factor(const at::Tensor& sparse, double factor) {
  if (sparse.element_size() != 2) return sparse.mul(factor);
  return sparse.to(at::kFloat).mul(factor).to(sparse.scalar_type());
}

}  // namespace mn
