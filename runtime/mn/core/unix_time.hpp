#pragma once

#include <chrono>

namespace mn {

/// Seconds since 1970-01-01 UTC by this host's clock, for what is compared with other hosts and processes. It may jump.
[[nodiscard]] inline double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace mn
