/// Work of a device that is recorded once and launched as often as needed: a CUDA graph.
///
/// (1) While `work` runs in the constructor it only enqueues, on the current stream and those that it orders after it,
///     on autograd's threads too; nothing of it is computed. A call that would wait for the device throws, and the
///     program should end then.
/// (2) A launch computes with the values that lie at the recorded addresses. Memory that was allocated before must
///     stay; what `work` allocates is the graph's, and gets new values in each launch.
/// (3) Random numbers of the device's default generator go on from launch to launch, as if `work` had run.
/// Cost of a launch for the host: one call, whatever the graph holds.
/// Source: at::cuda::CUDAGraph of libtorch. A build without CUDA has the same class, which is never available.
#pragma once

#include <functional>
#include <memory>

#include <mn/core/buffer.hpp>

namespace mn {

/// A graph of a device that recorded some work, as said above.
class DeviceGraph {
 public:
  /// Whether this build has graphs for the device.
  [[nodiscard]] static bool is_available(Device device);

  /// Waits for the device, then records `work`. Throws what `work` throws, and libtorch's exceptions.
  DeviceGraph(Device device, const std::function<void()>& work);
  /// To be destroyed before communicators whose calls it holds.
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;             ///< not copyable
  DeviceGraph& operator=(const DeviceGraph&) = delete;  ///< not copyable

  /// Enqueues all of it on the current stream.
  void launch();

 private:
  struct Recorded;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace mn
