// The CUDA runtime's GPUs and errors.
#include <cstdio>
#include <utility>

#include "tests/support/stand_in_gpu/capture.hpp"
#include "tests/support/stand_in_gpu/cuda_call.hpp"

using namespace mn::stand_in;

namespace {

constexpr int kMultiprocessors = 4;

bool is_device(int device) { return device >= 0 && device < settings().gpus; }

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return cuda_call("cudaGetDeviceCount", cudaErrorInitializationError, [&] {
    *count = settings().gpus;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return cuda_call("cudaGetDevice", cudaErrorInitializationError, [&] {
    *device = current_device();
    return is_device(*device) ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return cuda_call("cudaSetDevice", cudaErrorDevicesUnavailable, [&] {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    current_device() = device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return cuda_call("cudaDeviceGetPCIBusId", cudaErrorInvalidValue, [&] {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", 0x1b + 0x10 * device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return cuda_call("cudaDeviceGetAttribute", cudaErrorInvalidValue, [&] {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    if (attribute != cudaDevAttrMultiProcessorCount) return cudaErrorNotSupported;
    *value = kMultiprocessors;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return cuda_call("cudaDeviceGetStreamPriorityRange", cudaErrorInitializationError, [&] {
    *least = kLowestPriority;
    *greatest = kHighestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  tell_wait("cudaDeviceSynchronize");
  return cuda_call("cudaDeviceSynchronize", cudaErrorIllegalAddress, [] {
    auto lock = machine().lock();
    if (const cudaError_t code = refuse_unsafe(); code != cudaSuccess) return code;
    machine().drain(lock, current_device());
    return context_error();
  });
}

const char* cudaGetErrorName(cudaError_t code) {
  switch (code) {
#define NAME(code) \
  case code:       \
    return #code;
    NAME(cudaSuccess)
    NAME(cudaErrorInvalidValue)
    NAME(cudaErrorMemoryAllocation)
    NAME(cudaErrorInitializationError)
    NAME(cudaErrorDevicesUnavailable)
    NAME(cudaErrorNoDevice)
    NAME(cudaErrorInvalidDevice)
    NAME(cudaErrorInvalidConfiguration)
    NAME(cudaErrorInvalidResourceHandle)
    NAME(cudaErrorIllegalState)
    NAME(cudaErrorNotReady)
    NAME(cudaErrorNotSupported)
    NAME(cudaErrorIllegalAddress)
    NAME(cudaErrorLaunchFailure)
    NAME(cudaErrorLaunchOutOfResources)
    NAME(cudaErrorHostMemoryAlreadyRegistered)
    NAME(cudaErrorHostMemoryNotRegistered)
    NAME(cudaErrorStreamCaptureUnsupported)
    NAME(cudaErrorStreamCaptureInvalidated)
    NAME(cudaErrorStreamCaptureMerge)
    NAME(cudaErrorStreamCaptureUnmatched)
    NAME(cudaErrorStreamCaptureUnjoined)
    NAME(cudaErrorStreamCaptureIsolation)
    NAME(cudaErrorStreamCaptureImplicit)
    NAME(cudaErrorStreamCaptureWrongThread)
    NAME(cudaErrorCapturedEvent)
#undef NAME
    default:
      return "unrecognized error code";
  }
}

const char* cudaGetErrorString(cudaError_t code) { return cudaGetErrorName(code); }

cudaError_t cudaGetLastError() {
  if (must_fail("cudaGetLastError")) return cudaErrorLaunchOutOfResources;
  if (const cudaError_t lost = context_error(); lost != cudaSuccess) return lost;
  return std::exchange(last_error(), cudaSuccess);
}

cudaError_t cudaPeekAtLastError() { return last_error(); }

}  // extern "C"
