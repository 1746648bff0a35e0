#include <mn/core/environment.hpp>

#include <cstdlib>

#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<std::int64_t> environment_int(const char* name) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  const auto value = parse_number<std::int64_t>(*text);
  if (value) return value;
  throw UsageError(std::string(name) + " is \"" + *text + "\", which is not a whole number: unset or correct it");
}

std::chrono::seconds environment_seconds(const char* name, std::int64_t preset, std::int64_t most, const char* none) {
  const std::int64_t seconds = environment_int(name).value_or(preset);
  if (seconds >= 0 && seconds <= most) return std::chrono::seconds(seconds);
  throw UsageError(std::string(name) + " is " + std::to_string(seconds) + ": use 1 to " + std::to_string(most) +
                   " seconds, or 0 for " + none);
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  const std::string full(name);
  return full.substr(0, full.find('.'));
}

std::filesystem::path executable_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

}  // namespace mn
