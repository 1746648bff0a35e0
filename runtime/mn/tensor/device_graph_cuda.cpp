#include <mn/tensor/device_graph.hpp>

#include <map>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// Ends a recording after an error, to make the device usable again.
void end_quietly(at::cuda::CUDAGraph& graph) {
  try {
    graph.capture_end();
  } catch (const std::exception&) {  // the first error says more
  }
}

/// Returns the stream on which all graphs of a device are recorded. The stream exists as long as the process. It is not
/// a stream of libtorch's pool, because another thread, such as a loader's, may use the same stream of the pool; the
/// graph would then hold the work of that thread.
c10::cuda::CUDAStream capture_stream(c10::DeviceIndex device) {
  static auto& streams = *new std::map<c10::DeviceIndex, cudaStream_t>;
  const auto [found, is_new] = streams.try_emplace(device);
  if (is_new) C10_CUDA_CHECK(cudaStreamCreateWithFlags(&found->second, cudaStreamNonBlocking));
  return c10::cuda::getStreamFromExternal(found->second, device);
}

}  // namespace

struct DeviceGraph::Recorded {
  at::cuda::CUDAGraph graph;
};

bool DeviceGraph::is_available(Device device) { return device.type == DeviceType::kCuda; }

bool DeviceGraph::has_room(Device device) {
  const c10::DeviceIndex index = c10::Device(device).index();
  const c10::cuda::CUDAGuard on_device(index);
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index);
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingDeviceAllocator::StatType::AGGREGATE);
  const auto& allocated = stats.allocated_bytes[kAll];
  std::size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  // Before a recording the allocator returns the memory that it keeps for reuse, so this memory counts as free.
  const double room =
      static_cast<double>(free) + static_cast<double>(stats.reserved_bytes[kAll].current - allocated.current);
  constexpr double kMargin = 1.1;  // room for fragmentation
  return room >= 2 * kMargin * static_cast<double>(allocated.peak - allocated.current);
}

DeviceGraph::DeviceGraph(Device device, const std::function<void()>& work) : recorded_(std::make_unique<Recorded>()) {
  const c10::Device where(device);
  const c10::cuda::CUDAGuard on_device(where);
  c10::cuda::device_synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();  // returns the memory that libtorch keeps for reuse
  const c10::cuda::CUDAStream stream = capture_stream(where.index());
  const c10::cuda::CUDAStreamGuard on_stream(stream);
  // Other threads, for instance a loader's, may make CUDA calls meanwhile. A stricter mode would forbid these calls.
  recorded_->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {
    end_quietly(recorded_->graph);
    throw;
  }
  recorded_->graph.capture_end();
  // capture_begin() has enqueued a reset of the random numbers' position on this stream, and each launch sets the
  // position on its own stream. If a second process shares the GPU, the reset might come after a launch, so the
  // constructor waits for the reset.
  stream.synchronize();
}

DeviceGraph::~DeviceGraph() = default;

void DeviceGraph::launch() { recorded_->graph.replay(); }

}  // namespace mn
