#include "bind/memory.hpp"

#include <cerrno>
#include <memory>
#include <string>

#include <hwloc.h>

#include <mn/core/error.hpp>

namespace mn::launcher {

void bind_memory_near(const CpuSet& cpus) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error("hwloc does not start");
  const std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> topology(raw, hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) throw Error("hwloc cannot load the topology");
  const std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> set(hwloc_bitmap_alloc(), hwloc_bitmap_free);
  for (const int cpu : cpus) hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
  // Without HWLOC_MEMBIND_STRICT, hwloc would only prefer the NUMA nodes of `cpus`.
  const int flags = HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_STRICT;
  if (hwloc_set_membind(raw, set.get(), HWLOC_MEMBIND_BIND, flags) == 0 || errno == ENOSYS) return;
  const int reason = errno;
  const std::string what = "--mem-bind local: cannot bind memory to the NUMA nodes of the CPUs " + format_cpus(cpus);
  throw Error(with_errno(what, reason) + "; leave the option out, or allow set_mempolicy (docker --cap-add SYS_NICE)");
}

}  // namespace mn::launcher
