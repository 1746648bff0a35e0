/// The hardware of one node, as far as binding looks at it: cores, GPUs, network cards, and what is near what.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bind/cpu_set.hpp"

namespace mn::launcher {

struct Core {
  CpuSet cpus;  ///< its hardware threads
  int package = 0;
  friend bool operator==(const Core&, const Core&) = default;
};

/// A GPU by its address on the PCI bus; NVML describes the rest.
struct GpuSlot {
  std::string bus_id;  ///< 0000:3b:00.0
  CpuSet near;         ///< CPUs of its NUMA node
  std::string nic;     ///< the network card with the shortest way to it; empty: none
  friend bool operator==(const GpuSlot&, const GpuSlot&) = default;
};

struct Nic {
  std::string name;  ///< mlx5_0, hsi0, eth0
  CpuSet near;
  friend bool operator==(const Nic&, const Nic&) = default;
};

struct Machine {
  std::vector<Core> cores;    ///< in the order of the hardware: adjacent ones share caches
  std::vector<GpuSlot> gpus;  ///< by bus id
  std::vector<Nic> nics;      ///< InfiniBand and the like, or, where there is none, Ethernet
  int numa_nodes = 1;
  friend bool operator==(const Machine&, const Machine&) = default;
};

/// This node through hwloc, or the recorded one in `xml_file`. Throws Error.
[[nodiscard]] Machine read_machine(const std::string& xml_file = "");

/// "00000000:3B:00.0" → "0000:3b:00.0": NVML's and hwloc's spelling of PCI addresses made equal.
[[nodiscard]] std::string normal_bus_id(std::string bus_id);

void to_json(nlohmann::json& json, const Machine& machine);
void from_json(const nlohmann::json& json, Machine& machine);

}  // namespace mn::launcher
