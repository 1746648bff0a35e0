#pragma once

#include <chrono>
#include <ctime>
#include <string>

namespace mn {

/// Seconds since 1970-01-01 UTC, by this host's clock, which may jump. Times of different hosts can be compared.
[[nodiscard]] inline double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Writes a unix_time() as a date in UTC, by default in ISO 8601. `format` is a format of strftime(). Empty if the year
/// does not fit into an int, or if the text has more than 63 characters.
[[nodiscard]] inline std::string utc_text(double unix_seconds, const char* format = "%Y-%m-%dT%H:%M:%SZ") {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  char text[64];
  if (gmtime_r(&seconds, &utc) == nullptr) return "";
  return {text, std::strftime(text, sizeof text, format, &utc)};
}

}  // namespace mn
