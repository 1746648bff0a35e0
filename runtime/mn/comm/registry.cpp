#include <mn/comm/registry.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/calls/group_calls.hpp>
#include <mn/comm/device/cuda.hpp>
#include <mn/comm/device/device_conflict.hpp>
#include <mn/comm/host_backends.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

constexpr std::int64_t kMaxTimeout_s = 30LL * 86400;

template <class Backend>
const Backend* find(std::span<const Backend> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Backend::name);
  return found == table.end() ? nullptr : &*found;
}

bool has_nccl() { return nccl_backends().front().make != nullptr; }

void check_name(std::string_view name) {
  const NcclBackend* on_gpus = find(nccl_backends(), name);
  if (find(host_backends(), name) != nullptr || (on_gpus != nullptr && on_gpus->make != nullptr)) return;
  if (on_gpus != nullptr) {
    throw UsageError("communicator " + std::string(name) +
                     " needs NCCL, which this build of mn does not have: configure with -DMN_NCCL=ON, or use flat");
  }
  throw UsageError("unknown communicator \"" + std::string(name) + "\"; known: auto, " + join(communicator_names()));
}

struct Choice {
  std::string name;
  std::string reason;
  bool is_slow = false;  ///< logged as a warning: the user can set up something quicker
};

Choice choose(const CommunicatorSetup& setup) {
  if (!holds_on_all_ranks(setup.comm.get(), setup.device.type == DeviceType::kCpu)) {
    const std::string conflict = find_device_conflict(setup.comm.get(), setup.device);
    if (has_nccl() && conflict.empty()) return {"pure_nccl", "every rank has a GPU of its own"};
    if (has_nccl() && nccl_shares_gpus(setup.comm.get(), setup.device)) {
      return {"pure_nccl", conflict + ", which this NCCL allows"};
    }
    const std::string obstacle = has_nccl() ? conflict : "this build of mn has no NCCL";
    return {"flat", "gradients on GPUs go through host memory and MPI, which is slow: " + obstacle, true};
  }
  const Topology& topology = setup.topology;
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

/// The last owner of the result destroys `comm`. If a call has given up, `comm` stays: MPI may use its memory.
std::shared_ptr<Communicator> left_behind_if_failed(std::shared_ptr<Communicator> comm) {
  Communicator* const same = comm.get();
  return {same, [comm = std::move(comm)](Communicator*) mutable {
            if (comm->has_given_up()) new std::shared_ptr(std::move(comm));  // NOLINT: never deleted
          }};
}

/// Records the creation of a communicator. A communicator of all ranks of the job is a numbered call of the group with
/// leader 0 and ordinal 0.
RecordedCall record_creation(MPI_Comm comm) {
  const GroupName group{.rank = rank_in(comm), .size = size_of(comm)};
  const bool is_world = group.size == size_of(MPI_COMM_WORLD);
  return {group, {.operation = "create_communicator", .number = is_world ? count_creation() : 0}};
}

}  // namespace

std::shared_ptr<Communicator> make_backend(CommunicatorSetup setup) {
  check_name(setup.name);
  // If one rank has no GPU, all ranks make the backend's version for CPUs, or throw if there is none.
  const bool on_gpus = holds_on_all_ranks(setup.comm.get(), setup.device.type == DeviceType::kCuda);
  const NcclBackend* with_nccl = find(nccl_backends(), setup.name);
  if (on_gpus && with_nccl != nullptr && with_nccl->make != nullptr) {
    return left_behind_if_failed(with_nccl->make(std::move(setup)));
  }
  const HostBackend* backend = find(host_backends(), setup.name);
  if (backend == nullptr) {
    throw UsageError("communicator " + setup.name +
                     " needs a GPU on every rank, and some compute on the CPU: use --communicator auto");
  }
  if (setup.allreduce_grad_dtype) {
    throw UsageError("allreduce_grad_dtype works on GPUs through NCCL (pure_nccl), not with " + setup.name);
  }
  return left_behind_if_failed(make_host_backend(std::move(setup), *backend));
}

std::shared_ptr<Communicator> create_communicator(std::string_view name, MPI_Comm comm,
                                                  const CommunicatorOptions& options) {
  if (name != "auto") check_name(name);  // before anything is sent
  if (options.timeout && options.timeout->count() < 0) {
    throw ArgumentError("create_communicator: timeout must be above 0, or 0 for none");
  }
  if (!mpi_is_up())
    throw ArgumentError(
        "create_communicator: MPI is not running; create mn::Job first; it must outlive the communicator");
  if (comm == MPI_COMM_NULL)
    throw ArgumentError("create_communicator: the given communicator is MPI_COMM_NULL or freed");
  const bool debug = options.debug.value_or(environment("MN_DEBUG").value_or("0") != "0");
  const std::chrono::milliseconds timeout =
      options.timeout ? *options.timeout : environment_seconds("MN_COMM_TIMEOUT", 0, kMaxTimeout_s, "no time-out");
  const RecordedCall creation = record_creation(comm);
  CommunicatorSetup setup{
      std::string(name),           Mpi::duplicate(comm), find_topology(comm), {}, debug, timeout, false,
      options.allreduce_grad_dtype};
  setup.device = options.device ? *options.device : choose_device(setup.topology);
  if (setup.device.type == DeviceType::kCuda) cuda_set_device(setup.device.index);
  if (name == "auto") {
    const Choice choice = choose(setup);
    setup.name = choice.name;
    static std::once_flag said;  // logged once per process: programs make several communicators
    if (setup.topology.rank == 0) {
      std::call_once(said, [&] {
        log(choice.is_slow ? Severity::kWarning : Severity::kInfo,
            "communicator auto: " + choice.name + " (" + choice.reason + ")");
      });
    }
  }
  return make_backend(std::move(setup));
}

std::vector<std::string> communicator_names() { return communicator_names(DeviceType::kCuda); }

std::vector<std::string> communicator_names(DeviceType device) {
  std::vector<std::string> names;
  for (const HostBackend& backend : host_backends()) names.emplace_back(backend.name);
  if (device == DeviceType::kCpu) return names;
  for (const NcclBackend& backend : nccl_backends()) {
    if (backend.make != nullptr && find(host_backends(), backend.name) == nullptr) names.emplace_back(backend.name);
  }
  return names;
}

}  // namespace mn
