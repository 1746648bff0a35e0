/// Memory of this process, for tests that it stays bounded.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include <unistd.h>

namespace mn::test {

/// Bytes of memory that this process holds at present.
inline std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// A number of /proc/self/status in bytes; 0 where the kernel does not tell it.
inline std::int64_t status_bytes(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == name && file >> kib) return kib << 10;
  }
  return 0;
}

/// Those of them that no file backs, so that the system can't drop them.
inline std::int64_t anonymous_bytes() { return status_bytes("RssAnon:"); }

/// Forgets the peak; false where the kernel can't.
inline bool reset_peak_bytes() {
  return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5" << std::flush);
}

/// Most bytes of memory that this process has held since reset_peak_bytes(); 0 where the kernel does not tell.
inline std::int64_t peak_bytes() { return status_bytes("VmHWM:"); }

}  // namespace mn::test
