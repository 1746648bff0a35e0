#include <ctime>

#include <mn/core/unix_time.hpp>

namespace mn {

std::string utc_text(double unix_seconds, const char* format) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  char text[64];
  if (gmtime_r(&seconds, &utc) == nullptr) return "";
  return {text, std::strftime(text, sizeof text, format, &utc)};
}

}  // namespace mn
