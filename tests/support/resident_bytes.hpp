/// Memory of this process, for tests that it stays bounded.
#pragma once

#include <cstdint>
#include <fstream>

#include <unistd.h>

namespace mn::test {

/// Bytes of memory that this process holds at present.
inline std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace mn::test
