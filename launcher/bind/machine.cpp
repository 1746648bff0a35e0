#include "bind/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>

#include <hwloc.h>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::launcher {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const noexcept { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

Topology load(const std::string& xml_file) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error("hwloc does not start");
  Topology topology(raw);
  if (!xml_file.empty() && hwloc_topology_set_xml(raw, xml_file.c_str()) != 0) {
    throw Error("hwloc cannot read the topology " + xml_file);
  }
  // hwloc's component "gl" would look for X servers, and may wait for a name server that does not answer.
  hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "gl");
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) throw Error("hwloc cannot load the topology " + xml_file);
  return topology;
}

CpuSet cpus_of(hwloc_const_cpuset_t set) {
  CpuSet cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) cpus.insert(cpu);
  return cpus;
}

CpuSet near_cpus(hwloc_topology_t topology, hwloc_obj_t device) {
  const hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(topology, device);
  return parent == nullptr ? CpuSet{} : cpus_of(parent->cpuset);
}

hwloc_obj_t pci_of(hwloc_obj_t object) {
  while (object != nullptr && object->type != HWLOC_OBJ_PCI_DEVICE) object = object->parent;
  return object;
}

std::string bus_id_of(hwloc_obj_t pci) {
  const auto& at = pci->attr->pcidev;
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%01x", static_cast<unsigned>(at.domain), at.bus, at.dev, at.func);
  return text;
}

/// False for the graphics chip of a server's console, because its vendor makes no GPUs for computing.
bool is_gpu(hwloc_obj_t pci) {
  const auto& at = pci->attr->pcidev;
  const bool vendor = at.vendor_id == 0x10de || at.vendor_id == 0x1002;
  return vendor && (at.class_id == 0x0300 || at.class_id == 0x0302 || at.class_id == 0x0380 || at.class_id == 0x1200);
}

std::vector<Core> read_cores(hwloc_topology_t topology) {
  std::vector<Core> cores;
  // A virtual machine may hide its cores; then each hardware thread counts as a core.
  const int depth = hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE);
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_depth(topology, depth, core)) != nullptr;) {
    const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core);
    cores.push_back({cpus_of(core->cpuset), package == nullptr ? 0 : static_cast<int>(package->logical_index)});
  }
  return cores;
}

std::vector<hwloc_obj_t> nic_objects(hwloc_topology_t topology) {
  std::vector<hwloc_obj_t> fabric;
  std::vector<hwloc_obj_t> ethernet;
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_osdev(topology, device)) != nullptr;) {
    if (pci_of(device) == nullptr) continue;  // a software device, such as a bridge or tunnel
    if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) fabric.push_back(device);
    if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) ethernet.push_back(device);
  }
  return fabric.empty() ? ethernet : fabric;
}

/// The GPUs by PCI bus id. Not by hwloc's names: one GPU may have several (cuda0, nvml0, card1).
std::map<std::string, hwloc_obj_t> gpu_objects(hwloc_topology_t topology) {
  std::map<std::string, hwloc_obj_t> gpus;
  for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(topology, pci)) != nullptr;) {
    if (is_gpu(pci)) gpus.emplace(bus_id_of(pci), pci);
  }
  return gpus;
}

int depth_of(hwloc_obj_t object) {
  int depth = 0;
  for (; object != nullptr; object = object->parent) ++depth;
  return depth;
}

/// The number of common ancestors in hwloc's tree: the more, the shorter the path between the devices.
int shared_ancestors(hwloc_obj_t a, hwloc_obj_t b) {
  int depth_a = depth_of(a);
  int depth_b = depth_of(b);
  while (a != b) {
    if (depth_a >= depth_b) {
      a = a->parent;
      --depth_a;
    } else {
      b = b->parent;
      --depth_b;
    }
  }
  return depth_a;
}

/// The index of the network card nearest to `gpu`; among equally near cards, of the card that serves the fewest GPUs.
std::size_t nearest_nic(hwloc_obj_t gpu, const std::vector<hwloc_obj_t>& nics, const std::vector<int>& served) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < nics.size(); ++i) {
    const int gain = shared_ancestors(gpu, nics[i]) - shared_ancestors(gpu, nics[best]);
    if (gain > 0 || (gain == 0 && served[i] < served[best])) best = i;
  }
  return best;
}

}  // namespace

Machine read_machine(const std::string& xml_file) {
  const Topology owner = load(xml_file);
  hwloc_topology_t topology = owner.get();
  Machine machine;
  machine.cores = read_cores(topology);
  machine.numa_nodes = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE));
  const auto nics = nic_objects(topology);
  for (const hwloc_obj_t nic : nics) machine.nics.push_back({nic->name, near_cpus(topology, nic)});
  std::vector<int> served(nics.size(), 0);
  for (const auto& [bus_id, gpu] : gpu_objects(topology)) {
    GpuSlot slot{bus_id, near_cpus(topology, gpu), ""};
    if (!nics.empty()) {
      const std::size_t nearest = nearest_nic(gpu, nics, served);
      ++served[nearest];
      slot.nic = nics[nearest]->name;
    }
    machine.gpus.push_back(std::move(slot));
  }
  return machine;
}

std::string normal_bus_id(std::string bus_id) {
  const std::size_t colon = bus_id.find(':');
  if (colon != std::string::npos && colon > 4) bus_id.erase(0, colon - 4);
  return to_lower(std::move(bus_id));
}

}  // namespace mn::launcher
