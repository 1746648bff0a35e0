#include <algorithm>
#include <mutex>
#include <utility>

#include <mn/comm/cuda.hpp>
#include <mn/comm/registry.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

using Factory = std::shared_ptr<Communicator> (*)(CommunicatorSetup);

struct Backend {
  std::string_view name;
  Factory make;
};

constexpr Backend kBackends[] = {
    {"naive", make_naive},
    {"flat", make_flat},
    {"hierarchical", make_hierarchical},
    {"dummy", make_dummy},
};

/// Throws unless `name` is in the table.
const Backend& backend_named(std::string_view name) {
  const auto* found = std::find_if(std::begin(kBackends), std::end(kBackends),
                                   [&](const Backend& backend) { return backend.name == name; });
  if (found != std::end(kBackends)) return *found;
  std::string known = "auto";
  for (const auto& each : communicator_names()) known += ", " + each;
  throw UsageError("unknown communicator \"" + std::string(name) + "\"; known: " + known);
}

/// What "auto" means for these ranks, and why.
std::pair<std::string, std::string> choose(const Topology& topology, Device device) {
  if (device.type == DeviceType::kCuda) return {"flat", "gradients on " + device.str() + " staged through the host"};
  if (topology.inter_size == topology.size) return {"flat", "one rank on each node"};
  return {"hierarchical", std::to_string(topology.size) + " ranks on " + std::to_string(topology.inter_size) +
                              (topology.inter_size == 1 ? " node that share" : " nodes, which share") + " memory"};
}

Device choose_device(const Topology& topology) {
  if (const auto text = environment("MN_DEVICE")) return Device::parse(*text);
  if (const int count = cuda_device_count(); count > 0) return {DeviceType::kCuda, topology.intra_rank % count};
  static std::once_flag said;  // once a process: programs make several communicators
  if (topology.rank == 0) std::call_once(said, [] { log_warning("no GPU in reach: training on the CPU"); });
  return {};
}

}  // namespace

std::shared_ptr<Communicator> make_backend(CommunicatorSetup setup) {
  const Backend& backend = backend_named(setup.name);
  return backend.make(std::move(setup));
}

std::shared_ptr<Communicator> create_communicator(std::string_view name, MPI_Comm comm,
                                                  const CommunicatorOptions& options) {
  if (name != "auto") static_cast<void>(backend_named(name));  // before anything is sent
  if (options.count_limit == 0 || options.count_limit > INT_MAX) {
    throw ArgumentError("create_communicator: count_limit must be 1 to " + std::to_string(INT_MAX));
  }
  CommunicatorSetup setup{std::string(name), Mpi::duplicate(comm), find_topology(comm), {}, options.count_limit};
  setup.device = options.device ? *options.device : choose_device(setup.topology);
  if (setup.device.type == DeviceType::kCuda) cuda_set_device(setup.device.index);
  if (name == "auto") {
    const auto [chosen, reason] = choose(setup.topology, setup.device);
    if (setup.topology.rank == 0) log_info("communicator auto: " + chosen + " (" + reason + ")");
    setup.name = chosen;
  }
  return make_backend(std::move(setup));
}

std::vector<std::string> communicator_names() {
  std::vector<std::string> names;
  for (const Backend& backend : kBackends) names.emplace_back(backend.name);
  return names;
}

}  // namespace mn
