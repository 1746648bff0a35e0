/// Works on many tensors of a device with one kernel (comm/device/pack.hpp), on the current stream. Internal.
///
/// The functions do not raise the version counters of tensors. A tensor whose layout or dtype does not allow the common
/// kernel, for example a tensor of integers, costs a kernel of its own.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

/// Task: `to` gets `from`, multiplied by `factor`. Sizes are equal. Both are one tensor, or they do not overlap.
struct TensorCopy {
  at::Tensor from;
  at::Tensor to;
  double factor = 1;
};

/// Enqueues the copies. All tensors are on one device, which is not the CPU.
void copy_on_device(std::span<const TensorCopy> copies);

/// Enqueues a multiplication of all tensors by one factor, in place, so that their common norm is at most `max_norm`.
/// `norm`, one float64 on the tensors' device, is their present norm. The factor is 1 if `norm` is within the limit or
/// is not finite.
void limit_norm(const std::vector<at::Tensor>& tensors, const at::Tensor& norm, double max_norm);

}  // namespace mn
