// mn's graphs of a device's work, on the test device: in place of libtorch's for CUDA.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <mn/tensor/device_graph.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/support/test_device/memory.hpp"
#include "tests/support/test_device/streams.hpp"

namespace mn {

using test_device::check;

struct DeviceGraph::Recorded {
  ~Recorded() {
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    if (instance != nullptr) static_cast<void>(cudaGraphExecDestroy(instance));
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
};

bool DeviceGraph::is_available(Device device) { return device.type == DeviceType::kCuda; }

bool DeviceGraph::has_room(Device /*device*/) { return true; }

DeviceGraph::DeviceGraph(Device device, const std::function<void()>& work) : recorded_(std::make_unique<Recorded>()) {
  const c10::Device where(device);
  const c10::impl::VirtualGuardImpl guard(where.type());
  guard.synchronizeDevice(where.index());
  const c10::StreamGuard on_stream(guard.getStreamFromGlobalPool(where));
  const cudaStream_t stream = test_device::handle_of(current_stream(device));
  const test_device::GraphMemory memory;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    work();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &recorded_->graph));
    static_cast<void>(cudaGetLastError());
    throw;
  }
  check(cudaStreamEndCapture(stream, &recorded_->graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&recorded_->instance, recorded_->graph, 0), "cudaGraphInstantiate");
}

DeviceGraph::~DeviceGraph() = default;

void DeviceGraph::launch() {
  const c10::Stream stream = test_device::current_stream(test_device::current_device());
  check(cudaGraphLaunch(recorded_->instance, test_device::handle_of(stream)), "cudaGraphLaunch");
}

}  // namespace mn
