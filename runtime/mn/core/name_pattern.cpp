#include <mn/core/name_pattern.hpp>

#include <fnmatch.h>

namespace mn {

bool matches_name(const std::string& pattern, std::string_view name) {
  for (std::size_t end = name.size(); end != std::string_view::npos && end > 0; end = name.rfind('.', end - 1)) {
    if (fnmatch(pattern.c_str(), std::string(name.substr(0, end)).c_str(), 0) == 0) return true;
  }
  return false;
}

}  // namespace mn
