/// The norm of many tensors together. Internal.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// The defined gradients of `parameters`; a sparse gradient is replaced by the tensor of its rows.
[[nodiscard]] std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters);
/// Returns the L2 norm of all elements together, in float64, on the tensors' device. Does not wait for the device. Runs
/// three operators of libtorch, and one more for each further dtype.
[[nodiscard]] at::Tensor global_norm(const std::vector<at::Tensor>& tensors);

}  // namespace mn
