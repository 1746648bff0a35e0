/// The network card nearest to a GPU, and the card nearest to CPUs.
#pragma once

#include <cstddef>
#include <vector>

#include <hwloc.h>

#include "bind/cpu_set.hpp"
#include "bind/machine.hpp"

namespace mn::launcher {

/// Index of the network card that is nearest to `gpu`; among equally near cards, the card with the fewest GPUs in
/// `served`.
[[nodiscard]] std::size_t nearest_nic(hwloc_obj_t gpu, const std::vector<hwloc_obj_t>& nics,
                                      const std::vector<int>& served);

/// Returns a network card at the NUMA node of `cpus`, or else in the package of `cpus`; null if both lack a card.
[[nodiscard]] const Nic* nearest_nic(const Machine& machine, const CpuSet& cpus);

}  // namespace mn::launcher
