/// Runs collective calls in the order of the current stream.
#pragma once

#include <mn/comm/calls/forbidden_calls.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/device/device_collectives.hpp>
#include <mn/tensor/native_stream.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

/// Makes a collective call after the work on the caller's current stream. If the device has its own collectives, calls
/// enqueue(device collectives), and the host does not wait. Otherwise, and always in debug mode, which must read the
/// values, runs call(), which blocks.
template <class Enqueue, class Call>
void in_stream_order(Communicator& comm, const Enqueue& enqueue, const Call& call) {
  const bool on_host = comm.debug() || ForbiddenCalls::any();  // only blocking calls find forbidden calls
  DeviceCollectives* device = on_host ? nullptr : comm.device_collectives();
  if (device == nullptr) return call();
  const c10::Stream stream = current_stream(comm.device());
  device->after(native_stream(stream));
  enqueue(*device);
  device->join(native_stream(stream));
}

/// Call it after work that contains collectives of the device, such as a CUDA graph, was put on the current stream.
/// Errors of these collectives are then noticed.
inline void watch_work_of(Communicator& comm) {
  in_stream_order(
      comm, [](DeviceCollectives&) {}, [] {});
}

}  // namespace mn
