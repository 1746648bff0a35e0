// The CUDA runtime's streams and events.
#include <algorithm>

#include "tests/support/stand_in_gpu/capture.hpp"
#include "tests/support/stand_in_gpu/cuda_call.hpp"

namespace mn::stand_in {
namespace {

/// body(lock, stream) with the machine's lock held.
template <class Body>
cudaError_t on_stream(const char* name, cudaError_t failure, cudaStream_t stream, const Body& body) {
  return cuda_call(name, failure, [&] {
    auto lock = machine().lock();
    const StreamPtr found = machine().find(stream, current_device());
    return found ? body(lock, found) : cudaErrorInvalidResourceHandle;
  });
}

/// body(lock, event) for an event that no capture holds.
template <class Body>
cudaError_t on_event(const char* name, cudaEvent_t event, const Body& body) {
  return cuda_call(name, cudaErrorIllegalAddress, [&] {
    auto lock = machine().lock();
    const Event* found = machine().find(event);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    if (found->capture) return cudaErrorCapturedEvent;
    if (!found->mark.stream) return cudaSuccess;  // never recorded
    return body(lock, *found);
  });
}

}  // namespace
}  // namespace mn::stand_in

using namespace mn::stand_in;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return cuda_call("cudaStreamCreateWithPriority", cudaErrorMemoryAllocation, [&] {
    const auto lock = machine().lock();
    *stream = machine().create_stream(current_device(), (flags & cudaStreamNonBlocking) == 0,
                                      std::clamp(priority, kHighestPriority, kLowestPriority));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return on_stream("cudaStreamDestroy", cudaErrorInvalidResourceHandle, stream, [&](auto&, const StreamPtr& found) {
    if (machine().is_legacy(found)) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t code = refuse_captured(found); code != cudaSuccess) return code;
    machine().destroy(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return on_stream("cudaStreamGetFlags", cudaErrorInvalidResourceHandle, stream, [&](auto&, const StreamPtr& found) {
    *flags = found->is_blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return on_stream("cudaStreamGetPriority", cudaErrorInvalidResourceHandle, stream, [&](auto&, const StreamPtr& found) {
    *priority = found->priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  tell_wait("cudaStreamSynchronize");
  return on_stream("cudaStreamSynchronize", cudaErrorIllegalAddress, stream, [](auto& lock, const StreamPtr& found) {
    if (const cudaError_t code = refuse_captured(found); code != cudaSuccess) return code;
    machine().wait(lock, machine().pending(found));
    return context_error();
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  tell_query("cudaStreamQuery", stream);
  return on_stream("cudaStreamQuery", cudaErrorIllegalAddress, stream, [](auto&, const StreamPtr& found) {
    if (const cudaError_t code = refuse_captured(found); code != cudaSuccess) return code;
    return is_done(machine().pending(found)) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return on_stream("cudaStreamWaitEvent", cudaErrorInvalidResourceHandle, stream, [&](auto&, const StreamPtr& found) {
    const Event* recorded = machine().find(event);
    return recorded != nullptr ? wait_for(found, *recorded) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return on_stream("cudaLaunchHostFunc", cudaErrorInvalidValue, stream, [&](auto&, const StreamPtr& found) {
    const Op op = [function, data] { function(data); };
    return put(found, [op] { return op; });
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return cuda_call("cudaEventCreateWithFlags", cudaErrorMemoryAllocation, [&] {
    const auto lock = machine().lock();
    *event = machine().create_event(current_device());
    machine().find(*event)->has_time = (flags & cudaEventDisableTiming) == 0;
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return cuda_call("cudaEventDestroy", cudaErrorInvalidResourceHandle, [&] {
    const auto lock = machine().lock();
    return machine().destroy(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return on_stream("cudaEventRecord", cudaErrorIllegalAddress, stream, [&](auto&, const StreamPtr& found) {
    Event* recorded = machine().find(event);
    return recorded != nullptr ? record(*recorded, found) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  tell_query("cudaEventQuery", event);
  return on_event("cudaEventQuery", event, [](auto&, const Event& recorded) {
    return is_done({recorded.mark}) ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return cuda_call("cudaEventElapsedTime", cudaErrorInvalidResourceHandle, [&] {
    const auto lock = machine().lock();
    const Event* const first = machine().find(begin);
    const Event* const last = machine().find(end);
    for (const Event* const each : {first, last}) {
      if (each == nullptr || !each->has_time || !each->when) return cudaErrorInvalidResourceHandle;
    }
    if (!is_done({first->mark, last->mark})) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(*last->when - *first->when).count();
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  tell_wait("cudaEventSynchronize");
  return on_event("cudaEventSynchronize", event, [](auto& lock, const Event& recorded) {
    machine().wait(lock, {Mark(recorded.mark)});
    return context_error();
  });
}

}  // extern "C"
