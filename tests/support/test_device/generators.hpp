/// Random numbers of the test device.
#pragma once

#include <ATen/core/Generator.h>

namespace mn::test_device {

/// One for each device; it draws on the host, when an operator is called.
[[nodiscard]] const at::Generator& default_generator(c10::DeviceIndex device);

}  // namespace mn::test_device
