#include "facts/kernel_log.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "bind/small_files.hpp"

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

/// Numbers in NVIDIA's list of XIDs that mean broken hardware, not a program's mistake.
bool is_hardware(int xid) {
  constexpr int kHardware[] = {48, 62, 64, 74, 79, 92, 95, 119, 120, 140};
  return std::ranges::find(kHardware, xid) != std::end(kHardware);
}

/// The kernel's log; empty if only root may read it.
std::string kernel_log(const fs::path& file) {
  constexpr std::size_t kMaxBytes = 8 << 20;
  const int log = open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::string text;
  std::array<char, 8192> record;  // a read gives one record; EPIPE: the oldest records were overwritten
  while (log >= 0 && text.size() < kMaxBytes) {
    const ssize_t bytes = read(log, record.data(), record.size());
    if (bytes > 0) text.append(record.data(), static_cast<std::size_t>(bytes));
    if (bytes == 0 || (bytes < 0 && errno != EPIPE && errno != EINTR)) break;
  }
  if (log >= 0) close(log);
  return text;
}

}  // namespace

std::optional<bool> can_read_kernel_log(const fs::path& root) {
  if (!fs::exists(root / "proc/driver/nvidia/version")) return std::nullopt;
  const int log = open((root / "dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (log >= 0) close(log);
  return log >= 0;
}

/// Parses records such as "4,339,5140900,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, ...": the third number counts
/// microseconds from the boot.
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
    if (is_hardware(xid) && now - microseconds / 1e6 < kDay)
      xids.insert(std::string("GPU ") + gpu + " XID " + std::to_string(xid));
  }
  return {xids.begin(), xids.end()};
}

}  // namespace mn::launcher
