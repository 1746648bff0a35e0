/// The CPU time that control groups allow, which is less than the CPUs of the mask in many containers.
#pragma once

#include <filesystem>
#include <optional>

namespace mn::launcher {

/// CPUs' worth of time for this process's control group and all that share it: 2.5 for two and a half CPUs. No value
/// where it is unlimited. Both versions of control groups; proc and sys are read below `root`. Source: the kernel's
/// admin-guide/cgroup-v2 (cpu.max) and scheduler/sched-bwc (cpu.cfs_quota_us).
[[nodiscard]] std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// Threads for a rank with `cores` cores, one of `ranks` on a node with that quota.
[[nodiscard]] int threads_within(int cores, int ranks, std::optional<double> quota);

}  // namespace mn::launcher
