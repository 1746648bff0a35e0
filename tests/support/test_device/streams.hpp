/// Streams of the test device as libtorch names them. Internal.
#pragma once

#include <functional>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <cuda_runtime_api.h>

namespace mn::test_device {

inline constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

/// Throws unless the call of CUDA succeeded.
void check(cudaError_t code, const char* call);

[[nodiscard]] c10::Device current_device();
/// On which the calling thread enqueues its work for `device`.
[[nodiscard]] c10::Stream current_stream(c10::Device device);
/// Null for the default stream, the legacy one.
[[nodiscard]] cudaStream_t handle_of(const c10::Stream& stream);

/// Runs `work` when the stream comes to it; counts as an operator. An error in it ends the device, as an error of a
/// kernel does.
void enqueue(const c10::Stream& stream, const char* what, std::function<void()> work);
/// The host waits for the stream.
void synchronize(const c10::Stream& stream);

/// Calls of cudaSetDevice for a scope.
class OnDevice {
 public:
  explicit OnDevice(c10::Device device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
};

}  // namespace mn::test_device
