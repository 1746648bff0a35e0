/// The CPUs that are there for this process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace mn {

/// Numbers of the CPUs that this thread may run on (its affinity mask, which Slurm, taskset and containers set), in
/// order. Works for any number of CPUs. Throws Error if the kernel call fails.
[[nodiscard]] std::vector<int> usable_cpus();

/// The CPU time that the cgroups of this process grant in a second, in seconds (cpu.max, or cpu.cfs_quota_us of the
/// first version), as containers and Slurm set it; infinity where none limits it. `root` holds proc and sys.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root = "/");

/// Seconds in which this thread could have run so far, but had no CPU; 0 where the kernel does not count them.
[[nodiscard]] double queue_seconds();

/// How many threads of this process can run at a time: usable_cpus(), or fewer by cpu_quota(), rounded up; at least 1.
[[nodiscard]] std::size_t cpu_count();

}  // namespace mn
