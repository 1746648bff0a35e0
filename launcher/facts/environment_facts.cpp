#include <algorithm>
#include <set>
#include <span>

#include <mn/core/checksum.hpp>
#include <mn/core/text.hpp>

#include "facts/collect.hpp"

namespace mn::launcher {
namespace {

template <std::size_t N>
bool starts_with_any(const std::string& text, const char* const (&prefixes)[N]) {
  return std::ranges::any_of(prefixes, [&](const char* prefix) { return text.starts_with(prefix); });
}

/// Whether the variable should have one value on all nodes. kOwn: variables that launchers set for each process.
bool is_compared(const std::string& name) {
  constexpr const char* kExact[] = {"LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "CUDA_DEVICE_ORDER",
                                    "MNLAUNCH_OPTIONS"};
  constexpr const char* kPrefixes[] = {"OMP_", "KMP_", "MKL_", "MV2_", "OMPI_MCA_", "UCX_", "FI_", "NCCL_", "MN_"};
  constexpr const char* kOwn[] = {"OMPI_MCA_orte_",
                                  "OMPI_MCA_ess",
                                  "OMPI_MCA_pmix",
                                  "OMPI_MCA_shmem_",
                                  "OMPI_MCA_initial_wdir",
                                  "OMPI_MCA_mpi_oversubscribe",
                                  "MV2_COMM_WORLD_",
                                  "NCCL_SOCKET_IFNAME",
                                  "NCCL_HOSTID",
                                  "MN_NODE_NAME",
                                  "MN_HARDWARE_ROOT",
                                  "MN_NIC",
                                  "MN_LAUNCH_KEY",
                                  "MN_START_LINKS",
                                  "MN_STATUS_FILE",
                                  "NCCL_IB_HCA",
                                  "UCX_NET_DEVICES",
                                  "OMPI_MCA_plm",
                                  "OMPI_MCA_rmaps",
                                  "OMPI_MCA_routed",
                                  "OMPI_MCA_prte",
                                  "MN_RANK",
                                  "MN_INTRA_",
                                  "MN_INTER_",
                                  "MN_DEVICE"};
  if (starts_with_any(name, kOwn)) return false;
  return std::ranges::find(kExact, name) != std::end(kExact) || starts_with_any(name, kPrefixes);
}

std::string shortened(const std::string& value) {
  constexpr std::size_t kMaxLength = 160;
  if (value.size() <= kMaxLength) return value;
  return value.substr(0, kMaxLength) + "... (" + std::to_string(hash64(value)) + ")";
}

/// Each folder of the list once, in the order of the search: Open MPI 5's daemons repeat folders in LD_LIBRARY_PATH.
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

}  // namespace

std::string own_path_folders(const std::string& path) {
  constexpr const char* kSystem[] = {"/usr/local/sbin", "/usr/local/bin",   "/usr/sbin", "/usr/bin", "/sbin", "/bin",
                                     "/usr/games",      "/usr/local/games", "/snap/bin"};
  return folders_once(path, kSystem);
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

}  // namespace mn::launcher
