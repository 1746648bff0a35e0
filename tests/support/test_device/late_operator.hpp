/// Runs any operator of libtorch on the test device.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace mn::test_device {

/// A boxed kernel. What the results look like is known when it returns; the CPU's kernel computes them when the current
/// stream comes to it, on the device's memory. An operator whose results depend on values waits for the stream first.
void run_late(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace mn::test_device
