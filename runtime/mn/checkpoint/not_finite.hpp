/// Finds NaN and infinity in tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace mn {

/// True if the tensor holds NaN or, if `or_infinity` is true, infinity. False for tensors of integers. A contiguous
/// tensor on the CPU is read once, by one thread, at the speed of memory, and nothing is allocated.
[[nodiscard]] bool holds_nan(const at::Tensor& tensor, bool or_infinity);

}  // namespace mn
