/// The CPUs and the CPU time that this process may use. Containers and Slurm set the limits as cgroups.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace mn {

/// The CPUs of the calling thread's affinity mask (set by Slurm, taskset or a container), ascending. Throws Error if
/// the system fails.
[[nodiscard]] std::vector<int> usable_cpus();

/// The CPU time, in seconds per second, that the cgroups of this process grant (file cpu.max; in version 1 of cgroups,
/// cpu.cfs_quota_us). Infinity if there is no limit. `root` is the folder that contains proc and sys.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root = "/");

/// The seconds in which the calling thread was ready to run but had no CPU. 0 if the kernel does not count this time.
[[nodiscard]] double queue_seconds();

/// The number of usable_cpus(), or cpu_quota() rounded up if the quota is less; at least 1.
[[nodiscard]] std::size_t cpu_count();

/// The folders of this process's cgroups and of all their parents: of version 2 of cgroups, and of version 1 for
/// `controller`. A returned folder may be missing, because inside a container the path may be the host's path. `root`
/// is the folder that contains proc and sys.
[[nodiscard]] std::vector<std::filesystem::path> cgroups(const std::string& controller,
                                                         const std::filesystem::path& root = "/");

}  // namespace mn
