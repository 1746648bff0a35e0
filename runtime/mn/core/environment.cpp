#include <mn/core/environment.hpp>

#include <charconv>
#include <cstdlib>

#include <unistd.h>

#include <mn/core/error.hpp>

namespace mn {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<std::int64_t> environment_int(const char* name) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    throw UsageError(std::string(name) + " is \"" + *text + "\", which is not a whole number: unset or correct it");
  }
  return value;
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  const std::string full(name);
  return full.substr(0, full.find('.'));
}

std::filesystem::path executable_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

}  // namespace mn
