#pragma once

#include <chrono>
#include <ctime>
#include <string>

namespace mn {

/// Seconds since 1970-01-01 UTC by this host's clock, so times of different hosts and processes can be compared. The
/// clock may jump.
[[nodiscard]] inline double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Writes a unix_time() as a date in UTC. `format` is a format of strftime(); the default is ISO 8601. Empty if the
/// year does not fit into an int, or if the text has more than 63 characters.
[[nodiscard]] inline std::string utc_text(double unix_seconds, const char* format = "%Y-%m-%dT%H:%M:%SZ") {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  char text[64];
  if (gmtime_r(&seconds, &utc) == nullptr) return "";
  return {text, std::strftime(text, sizeof text, format, &utc)};
}

}  // namespace mn
