#include "start/exports.hpp"

#include <algorithm>

namespace mn::launcher {
namespace {

/// ROCm takes names of GPUs; HIP and those who follow CUDA count what is left.
void show_amd_gpus(Variables& variables, const std::string& list) {
  std::string numbers = "0";
  for (int i = 1; i <= std::ranges::count(list, ','); ++i) numbers += "," + std::to_string(i);
  variables.set("ROCR_VISIBLE_DEVICES", list);
  variables.set("HIP_VISIBLE_DEVICES", numbers);
  if (variables.has("CUDA_VISIBLE_DEVICES")) variables.set("CUDA_VISIBLE_DEVICES", numbers);
}

}  // namespace

int threads_within(int cores, int ranks, double quota) {
  return static_cast<int>(std::clamp(quota / ranks, 1.0, static_cast<double>(cores)));
}

void add_exports(Variables& variables, const Placement& here, const Master& master, const Equipment& equipment) {
  const auto set = [&](const char* name, int value) { variables.set(name, std::to_string(value)); };
  const auto set_if_unset = [&](const char* name, const std::string& value) {
    if (!variables.has(name)) variables.set(name, value);
  };
  const bool alone = equipment.is_alone;
  set("RANK", here.rank);
  set("WORLD_SIZE", here.size);
  set("LOCAL_RANK", alone ? 0 : here.intra_rank);
  set("LOCAL_WORLD_SIZE", alone ? 1 : here.intra_size);
  if (alone || here.inter_size != kNotKnown) {
    set("GROUP_RANK", alone ? here.rank : here.inter_rank);
    set("GROUP_WORLD_SIZE", alone ? here.size : here.inter_size);
  }
  if (!master.address.empty()) variables.set("MASTER_ADDR", master.address);
  set("MASTER_PORT", master.port);
  set("MN_RANK", here.rank);
  set("MN_SIZE", here.size);
  set("MN_INTRA_RANK", here.intra_rank);
  set("MN_INTRA_SIZE", here.intra_size);
  if (here.inter_size != kNotKnown) {
    set("MN_INTER_RANK", here.inter_rank);
    set("MN_INTER_SIZE", here.inter_size);
  }
  variables.set("MN_DEVICE", equipment.device);
  // By default CUDA counts the fastest GPU first.
  if (equipment.device.starts_with("cuda")) set_if_unset("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  if (equipment.visible_devices && equipment.has_amd_gpu) {
    show_amd_gpus(variables, *equipment.visible_devices);
  } else if (equipment.visible_devices) {
    variables.set("CUDA_VISIBLE_DEVICES", *equipment.visible_devices);
  }
  set_if_unset("OMP_NUM_THREADS", std::to_string(equipment.threads));
  if (equipment.bind_threads) {
    set_if_unset("OMP_PLACES", "cores");
    set_if_unset("OMP_PROC_BIND", "close");
  }
  if (!equipment.route.empty()) {
    // Left alone, both guess: Gloo takes what the host's name resolves to, NCCL the first of several interfaces.
    set_if_unset("GLOO_SOCKET_IFNAME", equipment.route);
    set_if_unset("NCCL_SOCKET_IFNAME", "=" + equipment.route);
  }
  if (!equipment.nic.empty()) variables.set("MN_NIC", equipment.nic);
  if (!equipment.nic_port.empty()) {
    set_if_unset("UCX_NET_DEVICES", equipment.nic_port);
    set_if_unset("NCCL_IB_HCA", "=" + equipment.nic_port);
  }
}

}  // namespace mn::launcher
