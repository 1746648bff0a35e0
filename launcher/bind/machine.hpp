/// The hardware of a node: cores, GPUs, network cards, and the distances between them.
#pragma once

#include <string>
#include <vector>

#include <mn/core/fields.hpp>

#include "bind/cpu_set.hpp"

namespace mn::launcher {

struct Core {
  CpuSet cpus;  ///< hardware threads of the core
  int package = 0;
  MN_FIELDS(cpus, package);
};

/// Where a GPU lies in the node. facts/gpu/ reads other properties.
struct GpuSlot {
  std::string bus_id;  ///< 0000:3b:00.0
  CpuSet near;         ///< CPUs of its NUMA node
  std::string nic;     ///< network card with the shortest path to the GPU; empty: none
  MN_FIELDS(bus_id, near, nic);
};

struct Nic {
  std::string name;  ///< mlx5_0, hsi0, eth0
  CpuSet near;
  MN_FIELDS(name, near);
};

struct Machine {
  std::vector<Core> cores;    ///< in the hardware's order: adjacent cores share caches
  std::vector<GpuSlot> gpus;  ///< by bus id
  std::vector<Nic> nics;      ///< InfiniBand and similar cards; Ethernet cards only if there are none
  int numa_nodes = 1;
  MN_FIELDS(cores, gpus, nics, numa_nodes);
};

/// Reads the hardware of this node with hwloc, or the hardware that `xml_file` describes. Throws Error.
[[nodiscard]] Machine read_machine(const std::string& xml_file = "");

/// Returns a PCI address in hwloc's form. For example, NVML's "00000000:3B:00.0" becomes "0000:3b:00.0".
[[nodiscard]] std::string normal_bus_id(std::string bus_id);

}  // namespace mn::launcher
