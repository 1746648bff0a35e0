#include "facts/cpu_quota.hpp"

#include <algorithm>
#include <fstream>
#include <string>

#include "facts/surroundings.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

std::optional<double> ratio(double quota, double period) {
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

/// "200000 100000", or "max 100000".
std::optional<double> quota_of_version_2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0;
  double period = 0;
  return file >> quota >> period ? ratio(quota, period) : std::nullopt;
}

std::optional<double> quota_of_version_1(const fs::path& group) {
  std::ifstream quotas(group / "cpu.cfs_quota_us");
  std::ifstream periods(group / "cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  return quotas >> quota && periods >> period ? ratio(quota, period) : std::nullopt;
}

/// The least over a group and all above it, up to `top`.
template <typename Read>
std::optional<double> least_quota(const fs::path& top, std::string group, Read read) {
  std::optional<double> least;
  while (true) {
    const auto quota = read(top / fs::path(group).relative_path());
    if (quota) least = std::min(quota, least ? least : quota);
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos || group == "/") return least;
    group = slash == 0 ? "/" : group.substr(0, slash);
  }
}

/// Whether "cpu,cpuacct" has cpu.
bool has_cpu(const std::string& controllers) { return ("," + controllers + ",").find(",cpu,") != std::string::npos; }

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> least;
  const fs::path groups = root / "sys/fs/cgroup";
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // "0::/a/b", "4:cpu,cpuacct:/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    std::optional<double> quota;
    if (controllers.empty()) quota = least_quota(groups, group, quota_of_version_2);
    if (has_cpu(controllers)) quota = least_quota(groups / controllers, group, quota_of_version_1);
    if (quota) least = std::min(quota, least ? least : quota);
  }
  return least;
}

int threads_within(int cores, int ranks, std::optional<double> quota) {
  return quota ? std::clamp(static_cast<int>(*quota / ranks), 1, cores) : cores;
}

}  // namespace mn::launcher
