/// Operations on their way into a stream, or into the graph that the stream is being captured into.
///
/// Invariants:
/// 1. A node comes after the nodes that its stream's and its events' order names, and after nothing else. A launch runs
///    the nodes in a random order that this allows, so what a capture forgot to order is found.
/// 2. Every call that CUDA forbids during a capture makes the capture invalid.
///
/// Source: CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture".
#pragma once

#include <map>
#include <thread>
#include <vector>

#include "tests/support/stand_in_gpu/machine.hpp"

namespace mn::stand_in {

struct Graph {
  struct Node {
    MakeOp make;
    std::vector<std::size_t> after;  ///< nodes with lower numbers
  };
  std::vector<Node> nodes;
};

struct Capture {
  Graph graph;
  StreamPtr origin;
  std::vector<StreamPtr> streams;
  std::map<const void*, std::size_t> last;  ///< node of each in_order_with
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool is_invalid = false;
  bool is_over = false;
};

// With the machine's lock held.

/// `make` is called now, or in each launch of the graph. Nodes with the same `in_order_with` that is not null keep
/// their order.
cudaError_t put(const StreamPtr& stream, const MakeOp& make, const void* in_order_with = nullptr);
cudaError_t record(Event& event, const StreamPtr& stream);
cudaError_t wait_for(const StreamPtr& stream, const Event& event);

/// For calls that a captured stream refuses.
[[nodiscard]] cudaError_t refuse_captured(const StreamPtr& stream);
/// For calls that may wait for other work, such as allocations: whether a capture forbids them to this thread.
[[nodiscard]] cudaError_t refuse_unsafe();
/// Whether captures forbid this thread such calls; else it makes them as if there were none.
[[nodiscard]] cudaStreamCaptureMode& mode_of_thread();

cudaError_t begin_capture(const StreamPtr& stream, cudaStreamCaptureMode mode);
cudaError_t end_capture(const StreamPtr& stream, Graph& graph);
cudaError_t launch(const Graph& graph, const StreamPtr& stream);

// Without it.

/// put() on a stream of that GPU; null is its legacy default stream.
cudaError_t submit(cudaStream_t stream, int device, const MakeOp& make, const void* in_order_with = nullptr);

}  // namespace mn::stand_in
