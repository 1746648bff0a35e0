#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "facts/facts.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

/// -1: unlimited.
std::int64_t limit(__rlimit_resource resource) {
  rlimit value{};
  getrlimit(resource, &value);
  return value.rlim_cur == RLIM_INFINITY ? -1 : static_cast<std::int64_t>(value.rlim_cur);
}

/// The value behind "key : value" in a file such as /proc/cpuinfo.
std::string field(const fs::path& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  return names;
}

Facts space_facts(const fs::path& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) return {{"free_mib", 0}, {"total_mib", 0}, {"writable", false}};
  const auto mib = [&](fsblkcnt_t blocks) { return (static_cast<std::uint64_t>(blocks) * status.f_frsize) >> 20; };
  return {{"free_mib", mib(status.f_bavail)},
          {"total_mib", mib(status.f_blocks)},
          {"writable", access(folder.c_str(), W_OK) == 0}};
}

Facts folder_facts(const fs::path& folder) {
  struct statfs status {};
  Facts facts = space_facts(folder);
  facts["path"] = folder.string();
  facts["exists"] = statfs(folder.c_str(), &status) == 0;
  facts["file_system"] = static_cast<std::uint64_t>(status.f_type);
  return facts;
}

/// Version number in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Wed …".
std::string driver_version(const std::string& line) {
  const std::size_t begin = line.find("  ");
  const std::size_t digits = line.find_first_of("0123456789", begin == std::string::npos ? line.size() : begin);
  return digits == std::string::npos ? "" : line.substr(digits, line.find(' ', digits) - digits);
}

/// Numbers in NVIDIA's list of XIDs that speak of broken hardware and not of a program's mistake.
bool is_hardware(int xid) {
  constexpr int kHardware[] = {48, 62, 64, 74, 79, 92, 95, 119, 120, 140};
  return std::ranges::find(kHardware, xid) != std::end(kHardware);
}

/// The kernel's log; empty where it is for root alone.
std::string kernel_log(const fs::path& file) {
  constexpr std::size_t kMost = 8 << 20;
  const int log = open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::string text;
  std::array<char, 8192> record;  // a read gives one record; EPIPE: the oldest were overwritten meanwhile
  while (log >= 0 && text.size() < kMost) {
    const ssize_t bytes = read(log, record.data(), record.size());
    if (bytes > 0) text.append(record.data(), static_cast<std::size_t>(bytes));
    if (bytes == 0 || (bytes < 0 && errno != EPIPE && errno != EINTR)) break;
  }
  if (log >= 0) close(log);
  return text;
}

/// "GPU 0000:3b:00 XID 79" for each hardware error of the last day, from records such as
/// "4,339,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, ...": the third number counts microseconds from the boot.
std::set<std::string> recent_xids(const fs::path& root) {
  constexpr double kDay = 86400;
  const double now = std::strtod(first_line(root / "proc/uptime").c_str(), nullptr);
  std::set<std::string> xids;
  if (!fs::exists(root / "proc/driver/nvidia/version")) return xids;
  std::istringstream records(kernel_log(root / "dev/kmsg"));
  for (std::string record; std::getline(records, record);) {
    double microseconds = 0;
    char gpu[32] = {};
    int xid = 0;
    const char* text = std::strstr(record.c_str(), "NVRM: Xid (PCI:");
    if (text == nullptr || std::sscanf(text, "NVRM: Xid (PCI:%31[^)]): %d", gpu, &xid) != 2) continue;
    std::sscanf(record.c_str(), "%*d,%*d,%lf", &microseconds);
    if (is_hardware(xid) && now - microseconds / 1e6 < kDay)
      xids.insert(std::string("GPU ") + gpu + " XID " + std::to_string(xid));
  }
  return xids;
}

mode_t file_mask() {
  const mode_t mask = umask(0);
  umask(mask);
  return mask;
}

}  // namespace

fs::path output_folder(const Surroundings& here) {
  fs::path folder = here.folder;
  const auto& arguments = here.arguments;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--out" && i + 1 < arguments.size()) folder = here.folder / arguments[i + 1];
    if (arguments[i].starts_with("--out=")) folder = here.folder / arguments[i].substr(6);
  }
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

Marker::Marker(const fs::path& folder, const std::string& name) : path_(folder / (".mnlaunch-" + name)) {
  const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    path_.clear();
  } else {
    close(file);
  }
}

Marker::~Marker() {
  std::error_code error;
  if (!path_.empty()) fs::remove(path_, error);
}

std::string first_line(const fs::path& file) {
  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);
  return line;
}

Facts system_facts(const Surroundings& here) {
  const fs::path& root = here.root;
  const fs::path proc = root / "proc";
  const fs::path sys = root / "sys";
  return {
      {"limits",
       {{"memlock", limit(RLIMIT_MEMLOCK)},
        {"nofile", limit(RLIMIT_NOFILE)},
        {"stack", limit(RLIMIT_STACK)},
        {"nproc", limit(RLIMIT_NPROC)},
        {"core", limit(RLIMIT_CORE)}}},
      {"fabric", entries(sys / "class/infiniband")},
      {"shm", space_facts(root / "dev/shm")},
      {"ptrace_scope", first_line(proc / "sys/kernel/yama/ptrace_scope")},
      {"driver_module", driver_version(first_line(proc / "driver/nvidia/version"))},
      {"xids", recent_xids(root)},
      {"boot_id", first_line(proc / "sys/kernel/random/boot_id")},
      {"cpu",
       {{"model", field(proc / "cpuinfo", "model name")},
        {"count", sysconf(_SC_NPROCESSORS_ONLN)},
        {"governor", first_line(sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor")},
        {"huge_pages", first_line(sys / "kernel/mm/transparent_hugepage/enabled")},
        {"kernel", first_line(proc / "sys/kernel/osrelease")},
        {"libc", gnu_get_libc_version()}}},
      {"user", {{"uid", getuid()}, {"gid", getgid()}, {"umask", file_mask()}}},
      {"folder", folder_facts(here.folder)},
      {"output", folder_facts(output_folder(here))},
      {"tmp", folder_facts(here.variables.get("TMPDIR").value_or("/tmp"))},
  };
}

}  // namespace mn::launcher
