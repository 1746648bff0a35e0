/// Memory near the cores that a rank runs on.
#pragma once

#include <filesystem>
#include <vector>

#include "bind/cpu_set.hpp"

namespace mn::launcher {

/// Numbers of the NUMA nodes that have one of the CPUs, from sysfs below `root`; empty where the kernel has none.
[[nodiscard]] std::vector<int> numa_nodes_of(const CpuSet& cpus, const std::filesystem::path& root = "/");

/// From now on, and after exec, this thread's memory comes from these NUMA nodes alone (MPOL_BIND). Throws Error if the
/// kernel rejects that.
void bind_memory_of_this_thread(const std::vector<int>& nodes);

}  // namespace mn::launcher
