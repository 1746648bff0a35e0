/// The hardware of a node as binding sees it: cores, GPUs, network cards, and their distances.
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
  friend bool operator==(const Core&, const Core&) = default;
};

/// Position of a GPU in the node; facts/gpu/ reads the GPU's other properties.
struct GpuSlot {
  std::string bus_id;  ///< 0000:3b:00.0
  CpuSet near;         ///< CPUs of its NUMA node
  std::string nic;     ///< network card with the shortest path to the GPU; empty: none
  MN_FIELDS(bus_id, near, nic);
  friend bool operator==(const GpuSlot&, const GpuSlot&) = default;
};

struct Nic {
  std::string name;  ///< mlx5_0, hsi0, eth0
  CpuSet near;
  MN_FIELDS(name, near);
  friend bool operator==(const Nic&, const Nic&) = default;
};

struct Machine {
  std::vector<Core> cores;    ///< in the hardware's order: adjacent cores share caches
  std::vector<GpuSlot> gpus;  ///< by bus id
  std::vector<Nic> nics;      ///< InfiniBand and similar cards; Ethernet cards only if there are none
  int numa_nodes = 1;
  MN_FIELDS(cores, gpus, nics, numa_nodes);
  friend bool operator==(const Machine&, const Machine&) = default;
};

/// Reads a machine with hwloc: the node recorded in `xml_file`, or this node if `xml_file` is empty. Throws Error.
[[nodiscard]] Machine read_machine(const std::string& xml_file = "");

/// Makes the kernel take this thread's memory only from the NUMA nodes of `cpus` (MPOL_BIND), also after exec; does
/// nothing on a kernel without NUMA. Throws Error if the kernel rejects the policy.
void bind_memory_near(const CpuSet& cpus);

/// Gives PCI addresses of NVML and hwloc one spelling: "00000000:3B:00.0" becomes "0000:3b:00.0".
[[nodiscard]] std::string normal_bus_id(std::string bus_id);

}  // namespace mn::launcher
