/// CPUs and CPU time available to this process, and the cgroups that containers and Slurm set as limits.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace mn {

/// The CPUs of the thread's affinity mask (set by Slurm, taskset or a container), ascending. Throws Error.
[[nodiscard]] std::vector<int> usable_cpus();

/// CPU seconds per second granted by the cgroups of this process, which containers and Slurm set (file cpu.max; in
/// version 1 cpu.cfs_quota_us). Infinity if there is no limit. `root` is the folder of proc and sys.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root = "/");

/// Seconds in which the calling thread was ready to run but had no CPU; 0 if the kernel keeps no count.
[[nodiscard]] double queue_seconds();

/// Number of threads that can run at a time: the number of usable_cpus(), or cpu_quota() rounded up if the quota is
/// less; at least 1.
[[nodiscard]] std::size_t cpu_count();

/// The folders of this process's cgroups, each with its parents: the cgroup of version 2, and the cgroup of version 1
/// for `controller`. A returned folder may not exist: inside a container, the path may be the host's path, of which
/// only the root is visible. `root` is the folder of proc and sys.
[[nodiscard]] std::vector<std::filesystem::path> cgroups(const std::string& controller,
                                                         const std::filesystem::path& root = "/");

}  // namespace mn
