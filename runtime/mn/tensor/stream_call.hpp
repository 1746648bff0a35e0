/// A collective call that is under way while the program computes.
#pragma once

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/device_collectives.hpp>
#include <mn/tensor/native_stream.hpp>
#include <mn/tensor/stream_order.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

/// False if all ranks run on the CPUs of one node: a call in the background would compute on the cores that the program
/// needs.
[[nodiscard]] inline bool gains_from_background(const Communicator& comm) {
  return comm.inter_size() > 1 || comm.device().type != DeviceType::kCpu;
}

/// Like Request, but on a device neither the call nor wait() blocks the host: the streams of the device wait. The
/// call's buffers must live until wait() has returned. Memory that is freed afterwards may be given to later work of
/// the stream that was current in wait(), because the later work begins after the call.
class StreamCall {
 public:
  /// Collective. Begins the call after the work on the caller's current stream. If the device has its own collectives,
  /// runs enqueue(device collectives). Otherwise runs start(), which returns a Request, or call(), which blocks, if a
  /// call in the background gains nothing.
  template <class Enqueue, class Start, class Call>
  StreamCall(Communicator& comm, const Enqueue& enqueue, const Start& start, const Call& call) {
    const bool on_host = comm.debug() || ForbiddenCalls::any();  // as in in_stream_order()
    DeviceCollectives* const device = on_host ? nullptr : comm.device_collectives();
    if (device == nullptr) {
      gains_from_background(comm) ? void(request_ = start()) : call();
      return;
    }
    comm_ = &comm;
    device->after(native_stream(current_stream(comm.device())));
    enqueue(*device);
  }

  /// Local. Work that the caller enqueues on its current stream from now on begins after the call. On the CPU blocks
  /// until the call is done. May be called again, for another stream.
  void wait() {
    if (comm_ == nullptr) return request_.wait();
    comm_->device_collectives()->join(native_stream(current_stream(comm_->device())));
  }

 private:
  Communicator* comm_ = nullptr;  // null: request_ is the call
  Request request_;
};

}  // namespace mn
