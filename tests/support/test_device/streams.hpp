/// The stand-in's streams as libtorch's.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <cuda_runtime_api.h>

#include "tests/support/stand_in_gpu/machine.hpp"

namespace mn::test_device {

inline constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

/// Throws c10::Error, as libtorch's own checks do.
void check(cudaError_t code, const char* call);

/// With the index of the calling thread's device where it has none.
[[nodiscard]] c10::Device with_index(c10::Device device);

/// While it lives, the calling thread's device is that one.
class OnDevice {
 public:
  explicit OnDevice(c10::DeviceIndex index);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
};

/// A stream's id is its handle; the default stream's, 0, is the legacy default stream.
[[nodiscard]] cudaStream_t handle_of(c10::Stream stream);
/// The calling thread's on that device.
[[nodiscard]] c10::Stream current_stream(c10::Device device);

/// Enqueues a kernel on the calling thread's current stream of that device. What it throws is an error of the device.
void launch(c10::Device device, stand_in::Op kernel);

/// What the stream holds now.
[[nodiscard]] std::vector<stand_in::Mark> pending(c10::Stream stream);

}  // namespace mn::test_device
