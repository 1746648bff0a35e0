/// Tells which CPUs and how much CPU time this process may use. Containers and Slurm set the limits as cgroups.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace mn {

/// The CPUs of the thread's affinity mask (set by Slurm, taskset or a container), ascending. Throws Error.
[[nodiscard]] std::vector<int> usable_cpus();

/// The CPU seconds per second that the cgroups of this process grant (file cpu.max; in version 1 cpu.cfs_quota_us).
/// Infinity if there is no limit. `root` is the folder that contains proc and sys.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root = "/");

/// The seconds in which the calling thread was ready to run but had no CPU. 0 if the kernel does not count this time.
[[nodiscard]] double queue_seconds();

/// Number of threads that can run at a time: the number of usable_cpus(), or cpu_quota() rounded up if the quota is
/// less; at least 1.
[[nodiscard]] std::size_t cpu_count();

/// The folders of this process's cgroups and of their parents: of the cgroup of version 2, and of the cgroup of version
/// 1 for `controller`. A returned folder need not exist: inside a container, the path may be the host's path, of which
/// only the root is visible. `root` is the folder that contains proc and sys.
[[nodiscard]] std::vector<std::filesystem::path> cgroups(const std::string& controller,
                                                         const std::filesystem::path& root = "/");

}  // namespace mn
