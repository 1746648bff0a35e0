/// CPUs and CPU time available to this process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace mn {

/// CPUs that this thread may run on (its affinity mask, set by Slurm, taskset or a container), ascending. Works for any
/// number of CPUs. Throws Error if the kernel call fails.
[[nodiscard]] std::vector<int> usable_cpus();

/// CPU seconds per second that this process's cgroups grant (cpu.max; version 1: cpu.cfs_quota_us), as containers and
/// Slurm set them; infinity without a limit. `root` holds proc and sys.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root = "/");

/// Seconds in which this thread was ready to run but had no CPU; 0 if the kernel does not count them.
[[nodiscard]] double queue_seconds();

/// Threads of this process that can run at a time: usable_cpus(), or cpu_quota() rounded up if that is less; at least
/// 1.
[[nodiscard]] std::size_t cpu_count();

}  // namespace mn
