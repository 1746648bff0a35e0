#include <fstream>
#include <system_error>

#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "facts.hpp"

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

mode_t file_mask() {
  const mode_t mask = umask(0);
  umask(mask);
  return mask;
}

}  // namespace

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
      {"cpu",
       {{"model", field(proc / "cpuinfo", "model name")},
        {"count", sysconf(_SC_NPROCESSORS_ONLN)},
        {"governor", first_line(sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor")},
        {"huge_pages", first_line(sys / "kernel/mm/transparent_hugepage/enabled")},
        {"kernel", first_line(proc / "sys/kernel/osrelease")},
        {"libc", gnu_get_libc_version()}}},
      {"user", {{"uid", getuid()}, {"gid", getgid()}, {"umask", file_mask()}}},
      {"folder", folder_facts(here.folder)},
      {"tmp", folder_facts(here.variables.get("TMPDIR").value_or("/tmp"))},
  };
}

}  // namespace mn::launcher
