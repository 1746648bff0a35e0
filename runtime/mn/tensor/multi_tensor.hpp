/// Works on many tensors of a device with one kernel (comm/device/pack.hpp), on the current stream. Internal.
///
/// The functions do not raise the version counter of a tensor. Some tensors cannot be in the common kernel, because of
/// their layout or because their dtype is not a float. Each of them costs a kernel of its own.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// A task: the tensor `to` gets the elements of the tensor `from`, multiplied by `factor`. The two tensors have equal
/// sizes. They do not overlap, unless they are one tensor.
struct TensorCopy {
  at::Tensor from;
  at::Tensor to;
  double factor = 1;
};

/// Enqueues the copies. All tensors are on one device, which is not the CPU.
void copy_on_device(std::span<const TensorCopy> copies);

/// Limits the common norm of the tensors to `max_norm`: multiplies them in place by one factor. `norm` is their norm
/// before, one float64 on the tensors' device. The factor is 1 if the norm is within the limit or is not finite. The
/// work is only enqueued.
void limit_norm(const std::vector<at::Tensor>& tensors, const at::Tensor& norm, double max_norm);

}  // namespace mn
