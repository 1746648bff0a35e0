/// CPUs and CPU time available to this process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace mn {

/// The CPUs of the thread's affinity mask (set by Slurm, taskset or a container), ascending. Works for any number of
/// CPUs. Throws Error if the kernel call fails.
[[nodiscard]] std::vector<int> usable_cpus();

/// CPU seconds per second granted by the process's cgroups (cpu.max; version 1: cpu.cfs_quota_us), as containers and
/// Slurm set them; infinity without a limit. `root` holds proc and sys.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root = "/");

/// Seconds in which the calling thread was ready to run but had no CPU; 0 if the kernel keeps no count.
[[nodiscard]] double queue_seconds();

/// Number of threads that can run at a time: usable_cpus(), or cpu_quota() rounded up if that is less; at least 1.
[[nodiscard]] std::size_t cpu_count();

}  // namespace mn
