#include <mn/comm/device/device_conflict.hpp>

#include <map>

#include <mn/comm/device/cuda.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/core/nccl_versions.hpp>

namespace mn {

std::string device_conflict(std::span<const std::string> devices) {
  std::map<std::string, std::size_t> users;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const std::string& device = devices[rank];
    if (device == Device().str()) return "rank " + std::to_string(rank) + " computes on the CPU";
    const auto [first, is_new] = users.try_emplace(device, rank);
    if (is_new) continue;
    const std::size_t space = device.find(' ');
    return "ranks " + std::to_string(first->second) + " and " + std::to_string(rank) + " share the GPU at " +
           device.substr(space + 1) + " of host " + device.substr(0, space);
  }
  return {};
}

std::string find_device_conflict(MPI_Comm comm, Device device) {
  std::string mine = device.str();
  if (device.type == DeviceType::kCuda) {
    // The bus address alone is not unique among hosts.
    mine = environment("NCCL_HOSTID").value_or(host_name()) + ' ' + cuda_bus_id(device.index);
  }
  return device_conflict(allgather_texts(comm, mine));
}

bool nccl_shares_gpus() {
  constexpr int kFirst = 23003;
  return nccl_version() >= kFirst && environment("NCCL_MULTI_RANK_GPU_ENABLE") != "0";
}

bool nccl_shares_gpus(MPI_Comm comm, Device device) {
  return holds_on_all_ranks(comm, device.type == DeviceType::kCuda && nccl_shares_gpus());
}

}  // namespace mn
