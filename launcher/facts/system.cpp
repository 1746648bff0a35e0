#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <mn/core/cpus.hpp>
#include <mn/core/fd.hpp>
#include <mn/core/small_files.hpp>

#include "facts/collect.hpp"
#include "facts/surroundings.hpp"
#include "facts/xid_advice.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> limit(__rlimit_resource resource) {
  rlimit value{};
  if (getrlimit(resource, &value) != 0) return std::nullopt;
  return value.rlim_cur == RLIM_INFINITY ? LimitFacts::kUnlimited : static_cast<std::int64_t>(value.rlim_cur);
}

FolderFacts collect_folder_facts(const fs::path& folder) {
  FolderFacts facts{.path = folder.string(), .free_mib = 0, .writable = false, .shared = {}};
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) return facts;
  facts.free_mib = (static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize) >> 20;
  facts.writable = access(folder.c_str(), W_OK) == 0;
  return facts;
}

/// Returns "580.95.05" for "NVRM version: NVIDIA UNIX x86_64 Kernel Module 580.95.05 Wed …".
std::optional<std::string> driver_version(const std::string& line) {
  const std::size_t begin = line.find("  ");
  const std::size_t digits = line.find_first_of("0123456789", begin == std::string::npos ? line.size() : begin);
  return digits == std::string::npos ? std::nullopt
                                     : std::optional(line.substr(digits, line.find(' ', digits) - digits));
}

/// Returns the file mode mask. Not by umask(2), which would change the mask while other threads create files.
std::optional<std::int64_t> file_mask(const fs::path& proc) {
  const auto text = value_of_key(proc / "self/status", "Umask");
  return text ? std::optional(std::strtol(text->c_str(), nullptr, 8)) : std::nullopt;
}

LimitFacts collect_limit_facts() {
  return {.memlock = limit(RLIMIT_MEMLOCK),
          .nofile = limit(RLIMIT_NOFILE),
          .stack = limit(RLIMIT_STACK),
          .nproc = limit(RLIMIT_NPROC),
          .core = limit(RLIMIT_CORE)};
}

CpuFacts collect_cpu_facts(const fs::path& root) {
  const fs::path proc = root / "proc";
  const fs::path sys = root / "sys";
  const double quota = cpu_quota(root);
  return {.model = value_of_key(proc / "cpuinfo", "model name"),
          .count = sysconf(_SC_NPROCESSORS_ONLN),
          .governor = first_line(sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
          .huge_pages = first_line(sys / "kernel/mm/transparent_hugepage/enabled"),
          .kernel = first_line(proc / "sys/kernel/osrelease"),
          .libc = gnu_get_libc_version(),
          .quota = std::isfinite(quota) ? std::optional(quota) : std::nullopt};
}

std::string kernel_log(const fs::path& file) {
  constexpr std::size_t kMaxBytes = 8 << 20;
  const Fd log(open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string text;
  std::array<char, 8192> record;  // a read returns one record; EPIPE: the oldest records were overwritten
  while (log && text.size() < kMaxBytes) {
    const ssize_t bytes = read(log.get(), record.data(), record.size());
    if (bytes > 0) text.append(record.data(), static_cast<std::size_t>(bytes));
    if (bytes == 0 || (bytes < 0 && errno != EPIPE && errno != EINTR)) break;
  }
  return text;
}

std::optional<bool> can_read_kernel_log(const fs::path& root) {
  if (!fs::exists(root / "proc/driver/nvidia/version")) return std::nullopt;
  return static_cast<bool>(Fd(open((root / "dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)));
}

/// The hardware errors in the kernel's log of the last day, each once, as "GPU 0000:3b:00 XID 79". In a record such as
/// "4,339,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, ...", the third number is microseconds since the boot.
std::vector<std::string> recent_xids(const fs::path& root) {
  constexpr double kDay = 86400;
  const double now = std::strtod(first_line(root / "proc/uptime").value_or("0").c_str(), nullptr);
  std::set<std::string> xids;
  if (!fs::exists(root / "proc/driver/nvidia/version")) return {};
  std::istringstream records(kernel_log(root / "dev/kmsg"));
  for (std::string record; std::getline(records, record);) {
    double microseconds = 0;
    char gpu[32] = {};
    int xid = 0;
    const char* text = std::strstr(record.c_str(), "NVRM: Xid (PCI:");
    if (text == nullptr || std::sscanf(text, "NVRM: Xid (PCI:%31[^)]): %d", gpu, &xid) != 2) continue;
    std::sscanf(record.c_str(), "%*d,%*d,%lf", &microseconds);
    if (!advice_on(xid).empty() && now - microseconds / 1e6 < kDay)
      xids.insert(std::string("GPU ") + gpu + " XID " + std::to_string(xid));
  }
  return {xids.begin(), xids.end()};
}

}  // namespace

SystemFacts collect_system_facts(const Surroundings& here) {
  const fs::path proc = here.root / "proc";
  const auto uptime = first_line(proc / "uptime");
  return {.limits = collect_limit_facts(),
          .ports = read_ports(here.root),
          .uptime_s = uptime ? std::optional(std::strtod(uptime->c_str(), nullptr)) : std::nullopt,
          .shm = collect_folder_facts(here.root / "dev/shm"),
          .ptrace_scope = first_line(proc / "sys/kernel/yama/ptrace_scope"),
          .driver_module = driver_version(first_line(proc / "driver/nvidia/version").value_or("")),
          .xids = recent_xids(here.root),
          .kernel_log = can_read_kernel_log(here.root),
          .boot_id = first_line(proc / "sys/kernel/random/boot_id"),
          .cpu = collect_cpu_facts(here.root),
          .user = {.uid = getuid(), .gid = getgid(), .umask = file_mask(proc)},
          .folder = collect_folder_facts(here.folder),
          .output = collect_folder_facts(output_folder(here)),
          .tmp = collect_folder_facts(here.variables.get("TMPDIR").value_or("/tmp"))};
}

}  // namespace mn::launcher
