/// Finds NaN and infinity in tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace mn {

/// True if the tensor holds NaN. With `or_infinity`, also true if the tensor holds infinity. False for tensors of
/// integers. A contiguous tensor on the CPU is read once by one thread, at the speed of memory; no memory is allocated.
[[nodiscard]] bool holds_nan(const at::Tensor& tensor, bool or_infinity);

}  // namespace mn
