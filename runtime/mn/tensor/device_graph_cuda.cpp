#include <mn/tensor/device_graph.hpp>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// Ends a recording after an error, to make the device usable again. Further errors are ignored.
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
  c10::cuda::CUDACachingAllocator::emptyCache();  // the graph may need memory that libtorch keeps for reuse
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, where.index());
  const c10::cuda::CUDAStreamGuard on_stream(stream);
  // During the recording a loader's threads, for instance, may make CUDA calls. A stricter mode would forbid the calls.
  recorded_->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {
    end_quietly(recorded_->graph);
    throw;
  }
  recorded_->graph.capture_end();
  // capture_begin() has enqueued a reset of the random numbers' position on this stream, and each launch sets the
  // position on its own stream. If a second process shares the GPU, the reset might come after a launch has set the
  // position, so the constructor waits for the reset here.
  stream.synchronize();
}

DeviceGraph::~DeviceGraph() = default;

void DeviceGraph::launch() { recorded_->graph.replay(); }

}  // namespace mn
