/// Binds the memory of a rank to the NUMA nodes of its CPUs.
#pragma once

#include "bind/cpu_set.hpp"

namespace mn::launcher {

/// From now on, also after exec, this thread gets memory only from the NUMA nodes of `cpus` (MPOL_BIND). Does nothing
/// if the kernel has no NUMA support. Throws Error if the kernel rejects the policy.
void bind_memory_near(const CpuSet& cpus);

}  // namespace mn::launcher
