/// Numbers that ranks average beside gradients, such as the weights of their samples. Internal.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// The dtype in which ranks average numbers that scale the gradients of `parameters`: as precise as the most precise
/// gradient. All ways to reduce gradients use this dtype, so that they compute equal bits.
[[nodiscard]] inline at::ScalarType numbers_dtype(const std::vector<at::Tensor>& parameters) {
  const auto is_wide = [](const at::Tensor& parameter) { return parameter.scalar_type() == at::kDouble; };
  return std::ranges::any_of(parameters, is_wide) ? at::kDouble : at::kFloat;
}

/// Returns exactly 1 if `mean`, a mean over ranks in `dtype`, differs from 1 only because 1 / size was rounded.
/// Otherwise returns `mean`.
[[nodiscard]] inline double without_rounding(double mean, at::ScalarType dtype) {
  return std::abs(mean - 1) < (dtype == at::kDouble ? 1e-14 : 1e-6) ? 1 : mean;
}

}  // namespace mn
