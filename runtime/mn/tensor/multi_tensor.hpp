/// Works on many tensors of a device with one kernel (comm/device/pack.hpp), on the current stream. Internal.
///
/// The functions raise no version of a tensor. Tensors that the kernel can't take, of other layouts or of dtypes that
/// are not floats, cost kernels of their own.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// `to` gets the elements of `from` times `factor`. The tensors have equal sizes, and do not overlap unless they are
/// the same.
struct TensorCopy {
  at::Tensor from;
  at::Tensor to;
  double factor = 1;
};

/// Enqueues the copies. All tensors are on one device, which is not the CPU.
void copy_on_device(std::span<const TensorCopy> copies);

/// Enqueues: the tensors are multiplied in place by a factor that limits `norm`, their norm together, to `max_norm`.
/// The factor is 1 if the norm is within the limit or is not finite. `norm` is one float64 on the tensors' device.
void limit_norm(const std::vector<at::Tensor>& tensors, const at::Tensor& norm, double max_norm);

}  // namespace mn
