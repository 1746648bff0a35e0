/// Collectives in the order of the current stream.
#pragma once

#include <mn/comm/calls/forbidden_calls.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/device/device_collectives.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

/// Orders a collective after the work on the caller's current stream. If the device has collectives of its own,
/// enqueue(device collectives) enqueues the collective, and the host goes on. Otherwise call() blocks; also in debug
/// mode, which reads the values.
template <class Enqueue, class Call>
void in_stream_order(Communicator& comm, const Enqueue& enqueue, const Call& call) {
  const bool on_host = comm.debug() || ForbiddenCalls::any();  // forbidden calls are found in blocking calls
  DeviceCollectives* device = on_host ? nullptr : comm.device_collectives();
  if (device == nullptr) return call();
  const c10::Stream stream = current_stream(comm.device());
  device->after(stream.native_handle());
  enqueue(*device);
  device->join(stream.native_handle());
}

/// Collectives inside a device's own work, such as a CUDA graph, are on the caller's current stream: errors are watched
/// for as if they had been enqueued now.
inline void watch_work_of(Communicator& comm) {
  in_stream_order(
      comm, [](DeviceCollectives&) {}, [] {});
}

}  // namespace mn
