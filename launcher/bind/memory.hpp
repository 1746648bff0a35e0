/// Memory near the cores of a rank.
#pragma once

#include <filesystem>
#include <vector>

#include "bind/cpu_set.hpp"

namespace mn::launcher {

/// Numbers of the NUMA nodes of the CPUs, from sysfs below `root`; empty if the kernel has no NUMA.
[[nodiscard]] std::vector<int> numa_nodes_of(const CpuSet& cpus, const std::filesystem::path& root = "/");

/// From now on, also after exec, this thread's memory comes from these NUMA nodes alone (MPOL_BIND). Throws Error if
/// the kernel rejects the policy.
void bind_memory_of_this_thread(const std::vector<int>& nodes);

}  // namespace mn::launcher
