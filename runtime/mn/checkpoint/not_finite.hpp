/// Finds NaN and infinity in tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace mn {

/// Whether the tensor holds NaN, or infinity where `or_infinity`. False for what is not of floating-point numbers. One
/// thread, no memory, and the memory's speed for a contiguous tensor of the usual types on the CPU.
[[nodiscard]] bool holds_nan(const at::Tensor& tensor, bool or_infinity);

}  // namespace mn
