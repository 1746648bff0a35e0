#include <mn/core/cpus.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>

#include <sched.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/small_files.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double ratio(std::string_view quota, std::string_view period) {
  const auto part = parse_number<double>(quota), whole = parse_number<double>(period);
  return part && whole && *part > 0 ? *part / *whole : kUnlimited;  // without a limit the quota is "max" or -1
}

double quota_of(const fs::path& cgroup) {
  const std::string line = first_line(cgroup / "cpu.max").value_or("");  // "QUOTA PERIOD"
  const auto words = split(line, ' ');
  const double first_version = ratio(first_line(cgroup / "cpu.cfs_quota_us").value_or(""),
                                     first_line(cgroup / "cpu.cfs_period_us").value_or(""));
  return std::min(ratio(words.front(), words.back()), first_version);
}

}  // namespace

std::vector<fs::path> cgroups(const std::string& controller, const fs::path& root) {
  std::vector<fs::path> found;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "number:controllers:path"
    InText fields(line);
    std::string number, controllers, path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    if (!controllers.empty() && ("," + controllers + ",").find("," + controller + ",") == std::string::npos) continue;
    fs::path folder = root / "sys/fs/cgroup" / controllers;
    found.push_back(folder);
    for (const auto& part : fs::path(path).relative_path()) found.push_back(folder /= part);
  }
  return found;
}

std::vector<int> usable_cpus() {
  constexpr int kMaxCpus = 1 << 16;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  const auto release = [](cpu_set_t* set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(release)> set(CPU_ALLOC(kMaxCpus), release);
  CPU_ZERO_S(bytes, set.get());
  if (sched_getaffinity(0, bytes, set.get()) != 0) throw Error(with_errno("cannot read the CPU mask", errno));
  std::vector<int> cpus;
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
  }
  return cpus;
}

double cpu_quota(const fs::path& root) {
  double least = kUnlimited;
  for (const fs::path& cgroup : cgroups("cpu", root)) least = std::min(least, quota_of(cgroup));
  return least;
}

double queue_seconds() {
  double ran_ns = 0, queued_ns = 0;
  InFile("/proc/thread-self/schedstat") >> ran_ns >> queued_ns;
  return queued_ns * 1e-9;
}

std::size_t cpu_count() {
  const auto cpus = static_cast<double>(usable_cpus().size());
  return static_cast<std::size_t>(std::max(1.0, std::min(cpus, std::ceil(cpu_quota()))));
}

}  // namespace mn
