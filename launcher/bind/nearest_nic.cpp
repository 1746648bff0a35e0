#include "bind/nearest_nic.hpp"

#include <algorithm>

namespace mn::launcher {
namespace {

int depth_of(hwloc_obj_t object) {
  int depth = 0;
  for (; object != nullptr; object = object->parent) ++depth;
  return depth;
}

/// Number of common ancestors of `a` and `b`. The larger the number, the shorter is the path between the two.
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

}  // namespace

std::size_t nearest_nic(hwloc_obj_t gpu, const std::vector<hwloc_obj_t>& nics, const std::vector<int>& served) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < nics.size(); ++i) {
    const int gain = shared_ancestors(gpu, nics[i]) - shared_ancestors(gpu, nics[best]);
    if (gain > 0 || (gain == 0 && served[i] < served[best])) best = i;
  }
  return best;
}

const Nic* nearest_nic(const Machine& machine, const CpuSet& cpus) {
  const auto is_near = [&](const Nic& nic) { return !intersection(nic.near, cpus).empty(); };
  const int package = package_near(machine.cores, cpus);
  const auto is_in_package = [&](const Nic& nic) {
    return package >= 0 && package_near(machine.cores, nic.near) == package;
  };
  auto nearest = std::ranges::find_if(machine.nics, is_near);
  if (nearest == machine.nics.end()) nearest = std::ranges::find_if(machine.nics, is_in_package);
  return nearest == machine.nics.end() ? nullptr : &*nearest;
}

}  // namespace mn::launcher
