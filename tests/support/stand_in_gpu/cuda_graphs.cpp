// The CUDA runtime's graphs, which captures alone make.
#include "tests/support/stand_in_gpu/capture.hpp"
#include "tests/support/stand_in_gpu/cuda_call.hpp"

using namespace mn::stand_in;

namespace {

Graph* graph_of(cudaGraph_t graph) { return reinterpret_cast<Graph*>(graph); }
Graph* graph_of(cudaGraphExec_t graph) { return reinterpret_cast<Graph*>(graph); }

}  // namespace

extern "C" {

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cuda_call("cudaStreamIsCapturing", cudaErrorInvalidResourceHandle, [&] {
    const auto lock = machine().lock();
    const StreamPtr found = machine().find(stream, current_device());
    if (!found) return cudaErrorInvalidResourceHandle;
    *status = cudaStreamCaptureStatusNone;
    if (found->capture) {
      *status = found->capture->is_invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return cuda_call("cudaThreadExchangeStreamCaptureMode", cudaErrorInvalidValue, [&] {
    std::swap(*mode, mode_of_thread());
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return cuda_call("cudaStreamBeginCapture", cudaErrorIllegalState, [&] {
    const auto lock = machine().lock();
    const StreamPtr found = machine().find(stream, current_device());
    return found ? begin_capture(found, mode) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return cuda_call("cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated, [&] {
    *graph = nullptr;
    Graph captured;
    const auto lock = machine().lock();
    const StreamPtr found = machine().find(stream, current_device());
    const cudaError_t code = found ? end_capture(found, captured) : cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess) *graph = reinterpret_cast<cudaGraph_t>(new Graph(std::move(captured)));
    return code;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* instance, cudaGraph_t graph, unsigned long long) {
  return cuda_call("cudaGraphInstantiate", cudaErrorMemoryAllocation, [&] {
    *instance = reinterpret_cast<cudaGraphExec_t>(new Graph(*graph_of(graph)));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) {
  return cuda_call("cudaGraphLaunch", cudaErrorInvalidValue, [&] {
    const auto lock = machine().lock();
    const StreamPtr found = machine().find(stream, current_device());
    return found ? launch(*graph_of(instance), found) : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return cuda_call("cudaGraphDestroy", cudaErrorInvalidValue, [&] {
    delete graph_of(graph);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) {
  return cuda_call("cudaGraphExecDestroy", cudaErrorInvalidValue, [&] {
    delete graph_of(instance);
    return cudaSuccess;
  });
}

}  // extern "C"
