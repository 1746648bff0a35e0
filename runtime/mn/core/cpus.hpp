/// CPUs and CPU time available to this process, and the cgroups that containers and Slurm set as limits.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace mn {

/// The CPUs of the thread's affinity mask (set by Slurm, taskset or a container), ascending. Throws Error.
[[nodiscard]] std::vector<int> usable_cpus();

/// CPU seconds per second granted by the process's cgroups (cpu.max; version 1: cpu.cfs_quota_us), as containers and
/// Slurm set them; infinity without a limit. `root` holds proc and sys.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root = "/");

/// Seconds in which the calling thread was ready to run but had no CPU; 0 if the kernel keeps no count.
[[nodiscard]] double queue_seconds();

/// Number of threads that can run at a time: usable_cpus(), or cpu_quota() rounded up if that is less; at least 1.
[[nodiscard]] std::size_t cpu_count();

/// Folders of this process's cgroups: in version 2, and of `controller` in version 1; each with its parents. Folders
/// may be missing: inside a container the path may be the host's, and only its root is visible. `root` holds proc and
/// sys.
[[nodiscard]] std::vector<std::filesystem::path> cgroups(const std::string& controller,
                                                         const std::filesystem::path& root = "/");

}  // namespace mn
