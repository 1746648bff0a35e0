/// Work of a device that is recorded once and launched any number of times: a CUDA graph.
///
/// (1) While `work` runs in the constructor, its operations are recorded and not computed: on the current stream, on
///     streams ordered after it, and from autograd's threads, too. A call that would wait for the device throws; the
///     program should end then.
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

class DeviceGraph {
 public:
  [[nodiscard]] static bool is_available(Device device);
  /// True if the device has enough free memory for two training steps at once: one in a graph and one without. Assumes
  /// that each needs as much memory as the largest step up to now.
  [[nodiscard]] static bool has_room(Device device);

  /// Waits for the device, then records `work`. Throws the exceptions of `work` and of libtorch.
  DeviceGraph(Device device, const std::function<void()>& work);
  /// If the graph contains calls of communicators, destroy the graph before the communicators.
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  void launch();

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace mn
