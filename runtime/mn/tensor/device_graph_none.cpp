#include <mn/tensor/device_graph.hpp>

#include <mn/core/error.hpp>

namespace mn {

struct DeviceGraph::Recorded {};

bool DeviceGraph::is_available(Device /*device*/) { return false; }

bool DeviceGraph::has_room(Device /*device*/) { return false; }

DeviceGraph::DeviceGraph(Device /*device*/, const std::function<void()>& /*work*/) {
  throw UsageError("this build of mn has no CUDA graphs");
}

DeviceGraph::~DeviceGraph() = default;

void DeviceGraph::launch() {}

}  // namespace mn
