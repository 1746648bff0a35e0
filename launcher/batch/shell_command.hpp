/// A simple command of a shell script, and words of it that are not known.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "place/variables.hpp"

namespace mn::launcher {

/// Stands in a word for a text that is not known.
inline constexpr char kUnknown = '\x01';

[[nodiscard]] inline bool is_known(const std::string& word) { return word.find(kUnknown) == std::string::npos; }

[[nodiscard]] inline bool is_one_of(const std::string& word, std::initializer_list<const char*> list) {
  return std::ranges::find(list, word) != list.end();
}

[[nodiscard]] inline std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
[[nodiscard]] inline bool has_slash(const std::string& name) { return name.find('/') != std::string::npos; }

struct ShellCommand {
  int line = 0;  ///< number of the line on which the command begins
  std::vector<std::string> words;
  std::vector<std::string> files;  ///< to and from which it redirects
  Variables variables;             ///< the variables when the command starts
};

}  // namespace mn::launcher
