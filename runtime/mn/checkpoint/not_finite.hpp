/// Finds NaN and infinity in tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace mn {

/// True if the tensor holds NaN. With `or_infinity`, also true if the tensor holds infinity. False for tensors of
/// integers. One thread reads a contiguous tensor on the CPU once, at the speed of memory, and allocates nothing.
[[nodiscard]] bool holds_nan(const at::Tensor& tensor, bool or_infinity);

}  // namespace mn
