/// The test device's tensors as its kernels see them. Internal.
#pragma once

#include <ATen/core/Tensor.h>

#include "tests/support/test_device/streams.hpp"

namespace mn::test_device {

[[nodiscard]] inline bool is_here(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kType;
}

/// The tensor's memory as a tensor of the CPU, for work that the device's streams run. It holds an address only.
[[nodiscard]] at::Tensor as_kernels_see(const at::Tensor& tensor);

/// The same elements on the CPU. The host waits for the current stream.
[[nodiscard]] at::Tensor read(const at::Tensor& tensor);

/// What libtorch knows of a number that takes part as a tensor: such tensors do not decide on dtypes.
void keep_wrapped_number(const at::Tensor& from, const at::Tensor& to);

}  // namespace mn::test_device
