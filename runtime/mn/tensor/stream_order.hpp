/// Collectives in the order of the current stream.
#pragma once

#include <mn/comm/communicator.hpp>
#include <mn/comm/device_collectives.hpp>
#include <mn/comm/forbidden_calls.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

/// Orders a collective after the work on the caller's current stream. Where the device has collectives of its own,
/// enqueue(device collectives) enqueues it and the host goes on; otherwise, and in debug mode, which reads the values,
/// `call()` blocks.
template <class Enqueue, class Call>
void in_stream_order(Communicator& comm, const Enqueue& enqueue, const Call& call) {
  const bool on_host = comm.debug() || ForbiddenCalls::any();  // where such a call is found
  DeviceCollectives* device = on_host ? nullptr : comm.device_collectives();
  if (device == nullptr) return call();
  const c10::Stream stream = current_stream(comm.device());
  device->after(stream.native_handle());
  enqueue(*device);
  device->join(stream.native_handle());
}

/// Collectives that the device makes by itself, as those of a CUDA graph, are on the caller's current stream: errors
/// are watched for as if they had been enqueued now.
inline void watch_work_of(Communicator& comm) {
  in_stream_order(
      comm, [](DeviceCollectives&) {}, [] {});
}

}  // namespace mn
