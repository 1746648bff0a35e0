#include "facts/collect.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/net/interfaces.hpp>
#include <mn/core/text.hpp>

#include "bind/cpu_set.hpp"
#include "facts/elf.hpp"
#include "facts/find_files.hpp"
#include "facts/gpu/amd_gpu.hpp"
#include "facts/json_fields.hpp"
#include "place/derive_rank.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

/// The value of the variable `name`, even if empty: an empty CUDA_VISIBLE_DEVICES hides all GPUs.
std::optional<std::string> as_set(const Variables& variables, const char* name) {
  const auto found = variables.all().find(name);
  return found == variables.all().end() ? std::nullopt : std::optional(found->second);
}

std::vector<VisibleGpu> amd_gpus_of_rank(const std::vector<Gpu>& gpus, const Variables& variables) {
  auto by_hip = as_set(variables, "HIP_VISIBLE_DEVICES");
  if (!by_hip) by_hip = as_set(variables, "CUDA_VISIBLE_DEVICES");  // as HIP does
  return visible_amd_gpus(gpus, as_set(variables, "ROCR_VISIBLE_DEVICES"), by_hip);
}

std::optional<int> wanted_threads(const Variables& variables) {
  for (const char* name : {"OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"}) {
    if (const auto text = variables.get(name)) return std::atoi(text->c_str());  // the first of "4,2"
  }
  return std::nullopt;
}

/// The GPUs for which the CUDA code of the program, and of torch's library of kernels, was compiled.
std::map<std::string, GpuCode> collect_gpu_code(const ProgramFacts& program) {
  std::map<std::string, GpuCode> code;
  code["the program"] = read_gpu_code(program.program.path.value_or(""));
  if (!program.libraries) return code;
  for (const auto& [name, library] : *program.libraries) {
    if (name.starts_with("libtorch_cuda")) code[name] = read_gpu_code(library.path.value_or(""));
  }
  return code;
}

bool starts_with_any(const std::string& text, std::string_view prefixes) {
  return std::ranges::any_of(split(prefixes, ' '), [&](std::string_view prefix) { return text.starts_with(prefix); });
}

/// Whether the variable `name` is compared between nodes. The variables of kOwn rightly differ.
bool is_compared(const std::string& name) {
  constexpr const char* kExact[] = {"LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "CUDA_DEVICE_ORDER",
                                    "MNLAUNCH_OPTIONS"};
  constexpr const char* kPrefixes = "OMP_ KMP_ MKL_ MV2_ OMPI_MCA_ UCX_ FI_ NCCL_ MN_";
  constexpr const char* kOwn =
      "OMPI_MCA_orte_ OMPI_MCA_ess OMPI_MCA_pmix OMPI_MCA_shmem_ OMPI_MCA_initial_wdir OMPI_MCA_mpi_oversubscribe "
      "OMPI_MCA_plm OMPI_MCA_rmaps OMPI_MCA_routed OMPI_MCA_prte MV2_COMM_WORLD_ NCCL_SOCKET_IFNAME NCCL_HOSTID "
      "NCCL_IB_HCA UCX_NET_DEVICES MN_NODE_NAME MN_HARDWARE_ROOT MN_NIC MN_LAUNCH_KEY MN_START_LINKS MN_STATUS_FILE "
      "MN_RANK MN_INTRA_ MN_INTER_ MN_DEVICE";
  if (starts_with_any(name, kOwn)) return false;
  return std::ranges::find(kExact, name) != std::end(kExact) || starts_with_any(name, kPrefixes);
}

std::string shortened(const std::string& value) {
  constexpr std::size_t kMaxLength = 160;
  if (value.size() <= kMaxLength) return value;
  return value.substr(0, kMaxLength) + "... (" + std::to_string(hash64(value)) + ")";
}

/// Returns each folder of `list` once, without `left_out`. (Open MPI 5's daemons repeat folders.)
std::string folders_once(const std::string& list, std::span<const char* const> left_out = {}) {
  std::set<std::string> seen(left_out.begin(), left_out.end());
  std::string once;
  for (const auto part : split(list, ':')) {
    const std::string folder(part);
    if (folder.empty() || !seen.insert(folder).second) continue;
    once += (once.empty() ? "" : ":") + folder;
  }
  return once;
}

std::string own_path_folders(const std::string& path) {
  constexpr const char* kSystem[] = {"/usr/local/sbin", "/usr/local/bin",   "/usr/sbin", "/usr/bin", "/sbin", "/bin",
                                     "/usr/games",      "/usr/local/games", "/snap/bin"};
  return folders_once(path, kSystem);
}

}  // namespace

RankFacts collect_rank_facts(const Placement& here, const Surroundings& surroundings) {
  RankFacts facts;
  facts.size = here.size;
  facts.conflicts = here.conflicts;
  std::string arguments;
  for (const auto& argument : surroundings.arguments) arguments += argument + '\n';
  facts.arguments = std::to_string(hash64(arguments));
  facts.threads = wanted_threads(surroundings.variables);
  facts.resources.mask = affinity_of_this_thread();
  std::string openable;
  if (const auto driver = read_gpus(kNvmlLibrary, GpuDetail::kIdentity)) {
    facts.resources.gpus = visible_gpus(driver->gpus, as_set(surroundings.variables, "CUDA_VISIBLE_DEVICES"));
    for (const auto& gpu : driver->gpus) openable += gpu.uuid;
  } else if (const auto amd = read_amd_gpus(surroundings.root)) {
    facts.resources.gpus = amd_gpus_of_rank(amd->gpus, surroundings.variables);
    for (const auto& gpu : amd->gpus) openable += gpu.uuid;
  }
  facts.openable = std::to_string(hash64(openable));
  return facts;
}

NodeFacts collect_node_facts(const Placement& here, const Surroundings& surroundings, bool compared) {
  NodeFacts facts;
  facts.host = host_name();
  facts.slurm_pmix = is_slurm_pmix(here.job);
  const auto& variables = surroundings.variables;
  facts.has_pmi = variables.has("PMI_FD") || variables.has("PMI_RANK");
  facts.has_pmix = variables.has("PMIX_NAMESPACE") || variables.has("OMPI_COMM_WORLD_RANK");
  facts.machine = read_machine();
  if (!compared) return facts;
  facts.system = collect_system_facts(surroundings);
  facts.program = collect_program_facts(surroundings);
  facts.environment = collect_environment(variables);
  facts.files = collect_file_facts(surroundings.check_files);
  facts.driver = read_gpus();
  if (!facts.driver) {
    facts.driver = read_amd_gpus(surroundings.root);
  } else {
    facts.nccl = collect_nccl_facts(surroundings);
    facts.gpu_code = collect_gpu_code(facts.program);
  }
  return facts;
}

std::vector<FileFacts> collect_file_facts(const std::vector<fs::path>& files) {
  std::vector<FileFacts> facts;
  for (const auto& path : files) {
    struct stat status {};
    FileFacts file{.path = path.string(), .exists = false, .size = 0, .changed = 0, .hash = ""};
    file.exists = stat(path.c_str(), &status) == 0 && access(path.c_str(), R_OK) == 0;
    if (file.exists && S_ISREG(status.st_mode)) {
      const auto size = static_cast<std::uintmax_t>(status.st_size);
      file.size = size;
      if (!is_hashed_whole(size)) file.changed = status.st_mtim.tv_sec;
      file.hash = hash_of_ends(path, size);
    }
    facts.push_back(std::move(file));
  }
  return facts;
}

NcclFacts collect_nccl_facts(const Surroundings& here) {
  const auto id_of = [](const fs::path& file) {
    std::error_code error;
    return fs::exists(file, error) ? file_id(file, {}) : std::string();
  };
  const fs::path home = here.variables.get("HOME").value_or("/");
  // NCCL asks the dynamic loader for libnccl-net.so or, if NCCL_NET_PLUGIN is NAME, for libnccl-net-NAME.so.
  const std::string plugin = here.variables.get("NCCL_NET_PLUGIN").value_or("");
  const std::string name = plugin.empty() ? "libnccl-net.so" : "libnccl-net-" + plugin + ".so";
  NcclFacts facts{
      .system_file = id_of(here.root / "etc/nccl.conf"), .user_file = id_of(home / ".nccl.conf"), .net_plugin = ""};
  if (const auto library = find_library(name, here.variables.get("LD_LIBRARY_PATH").value_or(""), here.root)) {
    facts.net_plugin = name + " " + file_id(*library, read_elf(*library)).value_or("");
  }
  return facts;
}

NetworkFacts collect_network_facts() {
  const auto interfaces = routed_interfaces();
  NetworkFacts facts;
  facts.resolved = addresses_of_own_name();
  facts.address = own_address(interfaces, facts.resolved);
  for (const auto& interface : interfaces) {
    facts.addresses.push_back(interface.address);
    facts.subnets.push_back(interface.subnet);
    if (interface.address == facts.address) facts.subnet = interface.subnet;
  }
  return facts;
}

std::map<std::string, std::string> collect_environment(const Variables& variables) {
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : variables.all()) {
    if (!is_compared(name)) continue;
    const bool is_search_path = name == "LD_LIBRARY_PATH" || name == "PYTHONPATH";
    values[name] = shortened(is_search_path ? folders_once(value) : value);
  }
  values["PATH"] = shortened(own_path_folders(variables.get("PATH").value_or("")));
  return values;
}

void limit_size(NodeFacts& facts) {
  constexpr std::size_t kMaxBytes = 16 << 10;
  if (!facts.environment || nlohmann::json::to_cbor(json_fields::write(facts)).size() <= kMaxBytes) return;
  // Hashes still allow a comparison of the nodes.
  for (auto& [name, value] : *facts.environment) value = hash_of_value(value);
}

}  // namespace mn::launcher
