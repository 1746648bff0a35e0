/// Work of a device that is recorded once and launched any number of times: a CUDA graph.
///
/// (1) While `work` runs in the constructor, its operations are recorded and not computed. This holds for the current
///     stream and for streams ordered after it, and for operations from autograd's threads, too. A call that would wait
///     for the device throws; the program should end then.
/// (2) A launch reads and writes the recorded addresses. Memory that was allocated before the recording must stay.
///     Memory that `work` allocates belongs to the graph, and every launch overwrites it.
/// (3) Random numbers of the device's default generator advance with each launch, as if `work` had run.
///
/// Cost of a launch on the host: one call, whatever the graph's size.
/// Source: libtorch's at::cuda::CUDAGraph. In a build without CUDA the class exists, but is never available.
#pragma once

#include <functional>
#include <memory>

#include <mn/core/buffer.hpp>

namespace mn {

/// A graph: recorded work of a device.
class DeviceGraph {
 public:
  /// Whether this build can record graphs for the device.
  [[nodiscard]] static bool is_available(Device device);
  /// True if the device has enough free memory for a graph of a training step and a step without the graph at once.
  /// Each of the two is assumed to need as much memory as the largest step up to now.
  [[nodiscard]] static bool has_room(Device device);

  /// Waits for the device, then records `work`. Throws the exceptions of `work` and of libtorch.
  DeviceGraph(Device device, const std::function<void()>& work);
  /// If the graph contains calls of communicators, destroy the graph before the communicators.
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;             ///< not copyable
  DeviceGraph& operator=(const DeviceGraph&) = delete;  ///< not copyable

  /// Enqueues the recorded work on the current stream.
  void launch();

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace mn
