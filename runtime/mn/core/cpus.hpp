/// The CPUs that are there for this process.
#pragma once

#include <vector>

namespace mn {

/// Numbers of the CPUs that this thread may run on (its affinity mask, which Slurm, taskset and containers set), in
/// order. Works for any number of CPUs. Throws Error if the kernel call fails.
[[nodiscard]] std::vector<int> usable_cpus();

}  // namespace mn
