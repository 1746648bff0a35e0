#include <mn/tensor/device_graph.hpp>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// Ends a failed capture, to make the device usable again; ignores further errors.
void end_quietly(at::cuda::CUDAGraph& graph) {
  try {
    graph.capture_end();
  } catch (const std::exception&) {  // the first error says more
  }
}

}  // namespace

struct DeviceGraph::Recorded {
  at::cuda::CUDAGraph graph;
};

bool DeviceGraph::is_available(Device device) { return device.type == DeviceType::kCuda; }

DeviceGraph::DeviceGraph(Device device, const std::function<void()>& work) : recorded_(std::make_unique<Recorded>()) {
  const c10::Device where(device);
  const c10::cuda::CUDAGuard on_device(where);
  c10::cuda::device_synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();  // the graph may need the memory that earlier steps cached
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, where.index());
  const c10::cuda::CUDAStreamGuard on_stream(stream);
  // Other threads, such as a loader's, may make calls during the capture that a stricter mode would forbid.
  recorded_->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {
    end_quietly(recorded_->graph);
    throw;
  }
  recorded_->graph.capture_end();
  // capture_begin() enqueues a reset of the random numbers' offset on this stream; a launch sets the offset on its own
  // stream. If a second process shares the GPU, the reset may come after the launch's setting; waiting here prevents
  // this.
  stream.synchronize();
}

DeviceGraph::~DeviceGraph() = default;

void DeviceGraph::launch() { recorded_->graph.replay(); }

}  // namespace mn
