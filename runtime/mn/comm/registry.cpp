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
    {"two_dimensional", make_two_dimensional},
    {"single_node", make_single_node},
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
  const std::string ranks = std::to_string(topology.size) + " ranks on " + std::to_string(topology.inter_size);
  if (topology.size == 1) return {"flat", "a single rank"};
  if (topology.inter_size == topology.size) return {"flat", "one rank on each node"};
  if (topology.inter_size == 1) return {"hierarchical", ranks + " node that share memory"};
  return {"two_dimensional", ranks + " nodes; those of a node share memory"};
}

Device choose_device(const Topology& topology) {
  if (const auto text = environment("MN_DEVICE")) return Device::parse(*text);
  if (const int count = cuda_device_count(); count > 0) return {DeviceType::kCuda, topology.intra_rank % count};
  static std::once_flag said;
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
  if (!mpi_is_up()) throw ArgumentError("create_communicator: MPI is not running; make an mn::Job first and last");
  if (comm == MPI_COMM_NULL)
    throw ArgumentError("create_communicator: MPI_COMM_NULL, or a communicator that was freed");
  const bool debug = options.debug.value_or(environment("MN_DEBUG").value_or("0") != "0");
  CommunicatorSetup setup{std::string(name), Mpi::duplicate(comm), find_topology(comm), {}, options.count_limit, debug};
  setup.device = options.device ? *options.device : choose_device(setup.topology);
  if (setup.device.type == DeviceType::kCuda) cuda_set_device(setup.device.index);
  if (name == "auto") {
    const auto choice = choose(setup.topology, setup.device);
    setup.name = choice.first;
    static std::once_flag said;  // once a process: programs make several communicators
    if (setup.topology.rank == 0) {
      std::call_once(said, [&] { log_info("communicator auto: " + choice.first + " (" + choice.second + ")"); });
    }
  }
  return make_backend(std::move(setup));
}

std::vector<std::string> communicator_names() {
  std::vector<std::string> names;
  for (const Backend& backend : kBackends) names.emplace_back(backend.name);
  return names;
}

}  // namespace mn
