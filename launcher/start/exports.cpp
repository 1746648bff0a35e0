#include "start/exports.hpp"

#include <algorithm>

namespace mn::launcher {
namespace {

void set_number(Variables& variables, const char* name, int value) { variables.set(name, std::to_string(value)); }

void set_if_unset(Variables& variables, const char* name, const std::string& value) {
  if (!variables.has(name)) variables.set(name, value);
}

/// Shows the program only the GPUs in `list`. HIP and CUDA count the GPUs that ROCR_VISIBLE_DEVICES leaves.
void show_amd_gpus(Variables& variables, const std::string& list) {
  std::string numbers = "0";
  for (int i = 1; i <= std::ranges::count(list, ','); ++i) numbers += "," + std::to_string(i);
  variables.set("ROCR_VISIBLE_DEVICES", list);
  variables.set("HIP_VISIBLE_DEVICES", numbers);
  if (variables.has("CUDA_VISIBLE_DEVICES")) variables.set("CUDA_VISIBLE_DEVICES", numbers);
}

/// Sets the numbers of ranks and nodes. If `alone`, torch's variables say that the rank has a node for itself.
void add_numbers(Variables& variables, const Placement& here, bool alone) {
  set_number(variables, "RANK", here.rank);
  set_number(variables, "WORLD_SIZE", here.size);
  set_number(variables, "LOCAL_RANK", alone ? 0 : here.intra_rank);
  set_number(variables, "LOCAL_WORLD_SIZE", alone ? 1 : here.intra_size);
  if (alone || here.inter_size != kNotKnown) {
    set_number(variables, "GROUP_RANK", alone ? here.rank : here.inter_rank);
    set_number(variables, "GROUP_WORLD_SIZE", alone ? here.size : here.inter_size);
  }
  set_number(variables, "MN_RANK", here.rank);
  set_number(variables, "MN_SIZE", here.size);
  set_number(variables, "MN_INTRA_RANK", here.intra_rank);
  set_number(variables, "MN_INTRA_SIZE", here.intra_size);
  if (here.inter_size != kNotKnown) {
    set_number(variables, "MN_INTER_RANK", here.inter_rank);
    set_number(variables, "MN_INTER_SIZE", here.inter_size);
  }
}

void add_devices(Variables& variables, const Equipment& equipment) {
  const GpuView& gpus = equipment.gpus;
  const std::string device = gpus.is_amd ? "cpu" : gpus.device();  // mn itself does not compute on AMD GPUs
  variables.set("MN_DEVICE", device);
  // mn counts GPUs by bus id; by default, CUDA gives the fastest GPU the index 0.
  if (device.starts_with("cuda")) set_if_unset(variables, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  if (gpus.visible_devices && gpus.is_amd) {
    show_amd_gpus(variables, *gpus.visible_devices);
  } else if (gpus.visible_devices) {
    variables.set("CUDA_VISIBLE_DEVICES", *gpus.visible_devices);
  }
  set_if_unset(variables, "OMP_NUM_THREADS", std::to_string(equipment.threads));
  if (equipment.bind_threads) {
    set_if_unset(variables, "OMP_PLACES", "cores");
    set_if_unset(variables, "OMP_PROC_BIND", "close");
  }
}

void add_network(Variables& variables, const Equipment& equipment) {
  if (!equipment.route.empty()) {
    // Otherwise Gloo would use the address of the host's name, and NCCL the first of several interfaces.
    set_if_unset(variables, "GLOO_SOCKET_IFNAME", equipment.route);
    set_if_unset(variables, "NCCL_SOCKET_IFNAME", "=" + equipment.route);
  }
  if (!equipment.nic.empty()) variables.set("MN_NIC", equipment.nic);
  if (!equipment.nic_port.empty()) {
    set_if_unset(variables, "UCX_NET_DEVICES", equipment.nic_port);
    set_if_unset(variables, "NCCL_IB_HCA", "=" + equipment.nic_port);
  }
}

}  // namespace

int threads_within(int cores, int ranks, double quota) {
  return static_cast<int>(std::clamp(quota / ranks, 1.0, static_cast<double>(cores)));
}

void add_exports(Variables& variables, const Placement& here, const Master& master, const Equipment& equipment) {
  add_numbers(variables, here, equipment.gpus.is_alone);
  if (!master.address.empty()) variables.set("MASTER_ADDR", master.address);
  set_number(variables, "MASTER_PORT", master.port);
  add_devices(variables, equipment);
  add_network(variables, equipment);
}

}  // namespace mn::launcher
