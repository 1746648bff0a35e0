#include "tests/support/stand_in_gpu/capture.hpp"

#include <algorithm>
#include <utility>

#include "tests/support/stand_in_gpu/cuda_call.hpp"

namespace mn::stand_in {
namespace {

using CapturePtr = std::shared_ptr<Capture>;

/// Guarded by the machine's lock.
std::vector<CapturePtr>& ongoing() {
  static auto& all = *new std::vector<CapturePtr>;
  return all;
}

cudaError_t invalidate(Capture& capture, cudaError_t code) {
  capture.is_invalid = true;
  return code;
}

/// The legacy default stream would wait for a blocking stream that is captured.
cudaError_t refuse_implicit(const StreamPtr& stream) {
  if (!machine().is_legacy(stream)) return cudaSuccess;
  for (const auto& capture : ongoing()) {
    const bool is_joined = std::ranges::any_of(
        capture->streams, [&](const StreamPtr& each) { return each->is_blocking && each->device == stream->device; });
    if (is_joined) return invalidate(*capture, cudaErrorStreamCaptureImplicit);
  }
  return cudaSuccess;
}

void merge(std::vector<std::size_t>& into, const std::vector<std::size_t>& nodes) {
  into.insert(into.end(), nodes.begin(), nodes.end());
  std::ranges::sort(into);
  into.erase(std::unique(into.begin(), into.end()), into.end());
}

void append(const StreamPtr& stream, const MakeOp& make, const void* in_order_with) {
  Capture& capture = *stream->capture;
  const std::size_t node = capture.graph.nodes.size();
  std::vector<std::size_t> after = stream->tail;
  if (in_order_with != nullptr) {
    const auto [last, is_first] = capture.last.try_emplace(in_order_with, node);
    if (!is_first) merge(after, {std::exchange(last->second, node)});
  }
  capture.graph.nodes.push_back({make, std::move(after)});
  stream->tail = {node};
}

/// Whether all nodes come before the end of the stream in which the capture began.
bool is_joined(const Capture& capture) {
  std::vector<bool> reached(capture.graph.nodes.size());
  for (const std::size_t node : capture.origin->tail) reached[node] = true;
  for (std::size_t node = reached.size(); node-- > 0;) {
    if (!reached[node]) return false;  // what comes after it has a higher number and was looked at
    for (const std::size_t before : capture.graph.nodes[node].after) reached[before] = true;
  }
  return true;
}

}  // namespace

cudaError_t put(const StreamPtr& stream, const MakeOp& make, const void* in_order_with) {
  if (const cudaError_t code = refuse_implicit(stream); code != cudaSuccess) return code;
  if (stream->capture) {
    append(stream, make, in_order_with);
  } else {
    machine().enqueue(stream, make());
  }
  return cudaSuccess;
}

cudaError_t record(Event& event, const StreamPtr& stream) {
  if (event.device != stream->device) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t code = refuse_implicit(stream); code != cudaSuccess) return code;
  event.capture = stream->capture;
  event.tail = stream->tail;
  if (stream->capture) return cudaSuccess;
  event.when = std::make_shared<std::chrono::steady_clock::time_point>();
  event.mark = machine().enqueue(stream, [when = event.when] { *when = std::chrono::steady_clock::now(); });
  return cudaSuccess;
}

cudaError_t wait_for(const StreamPtr& stream, const Event& event) {
  if (event.capture && event.capture->is_over) return cudaErrorCapturedEvent;
  if (event.capture) {  // the stream takes part in the capture from here on
    if (stream->capture && stream->capture != event.capture) {
      return invalidate(*stream->capture, invalidate(*event.capture, cudaErrorStreamCaptureMerge));
    }
    if (machine().is_legacy(stream)) return invalidate(*event.capture, cudaErrorStreamCaptureIsolation);
    if (!stream->capture) event.capture->streams.push_back(stream);
    stream->capture = event.capture;
    merge(stream->tail, event.tail);
    return cudaSuccess;
  }
  if (stream->capture) return invalidate(*stream->capture, cudaErrorStreamCaptureIsolation);
  if (const cudaError_t code = refuse_implicit(stream); code != cudaSuccess) return code;
  if (event.mark.stream) machine().enqueue(stream, [] {}, {event.mark});
  return cudaSuccess;
}

cudaError_t refuse_captured(const StreamPtr& stream) {
  if (const cudaError_t code = refuse_implicit(stream); code != cudaSuccess) return code;
  return stream->capture ? invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaStreamCaptureMode& mode_of_thread() {
  static thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

cudaError_t refuse_unsafe() {
  if (mode_of_thread() == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t code = cudaSuccess;
  for (const auto& capture : ongoing()) {
    const bool is_mine = capture->thread == std::this_thread::get_id();
    if (capture->mode == cudaStreamCaptureModeGlobal ||
        (capture->mode == cudaStreamCaptureModeThreadLocal && is_mine)) {
      code = invalidate(*capture, cudaErrorStreamCaptureUnsupported);
    }
  }
  return code;
}

cudaError_t begin_capture(const StreamPtr& stream, cudaStreamCaptureMode mode) {
  if (machine().is_legacy(stream)) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->streams = {stream};
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  stream->capture = capture;
  stream->tail.clear();
  ongoing().push_back(std::move(capture));
  return cudaSuccess;
}

cudaError_t end_capture(const StreamPtr& stream, Graph& graph) {
  const CapturePtr capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != stream) return invalidate(*capture, cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return invalidate(*capture, cudaErrorStreamCaptureWrongThread);
  }
  const bool joined = is_joined(*capture);
  for (const StreamPtr& each : std::exchange(capture->streams, {})) {
    each->capture.reset();
    each->tail.clear();
  }
  capture->origin.reset();
  capture->is_over = true;
  std::erase(ongoing(), capture);
  graph = std::exchange(capture->graph, {});
  if (capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
  return joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

cudaError_t launch(const Graph& graph, const StreamPtr& stream) {
  if (stream->capture) return invalidate(*stream->capture, cudaErrorNotSupported);
  std::vector<bool> is_launched(graph.nodes.size());
  std::vector<std::size_t> ready;
  for (std::size_t launched = 0; launched < graph.nodes.size(); ++launched) {
    ready.clear();
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      const auto& after = graph.nodes[node].after;
      const bool may = std::ranges::all_of(after, [&](std::size_t before) { return is_launched[before]; });
      if (may && !is_launched[node]) ready.push_back(node);
    }
    const std::size_t next = ready[stream->random() % ready.size()];
    is_launched[next] = true;
    if (const cudaError_t code = put(stream, graph.nodes[next].make); code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

cudaError_t submit(cudaStream_t stream, int device, const MakeOp& make, const void* in_order_with) {
  const auto lock = machine().lock();
  const StreamPtr found = machine().find(stream, device);
  if (!found || found->device != device) return cudaErrorInvalidResourceHandle;
  return put(found, make, in_order_with);
}

}  // namespace mn::stand_in
