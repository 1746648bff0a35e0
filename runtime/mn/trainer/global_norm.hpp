/// The norm of many tensors together, as if they were one vector. Internal.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// Returns the gradient of each of `parameters`; an undefined tensor if it has none. In place of a sparse gradient, the
/// result has the tensor of the gradient's rows.
[[nodiscard]] std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters);
/// Returns the L2 norm of all elements of `tensors` together, in float64, on the tensors' device. tensors[i] belongs to
/// parameters[i], and may be undefined, on all ranks alike. Collective if parameters are sharded or experts: the norm
/// then includes the pieces of all ranks. The host does not wait for the device. Runs three operators of libtorch, and
/// one more for each additional dtype.
[[nodiscard]] at::Tensor global_norm(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& parameters);

}  // namespace mn
