/// Where a rank's facts come from.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mn/core/environment.hpp>

#include "place/variables.hpp"

namespace mn::launcher {

struct Surroundings {
  std::filesystem::path root = "/";  ///< /proc, /sys and /dev are read below it; tests move it
  Variables variables;
  std::filesystem::path folder;   ///< the current one
  std::filesystem::path program;  ///< empty if it was not found
  std::string program_error;      ///< why not
  std::vector<std::string> arguments;
  std::vector<std::filesystem::path> check_files;
  /// For the dynamic loader's answer. A program with many libraries on a cold network file system takes seconds, and
  /// will when it starts.
  std::chrono::milliseconds loader_patience{20'000};
};

/// `moved`: MN_HARDWARE_ROOT, which moves Surroundings::root in tests. An installed program takes no notice of it.
[[nodiscard]] inline std::filesystem::path hardware_root(const std::optional<std::string>& moved) {
  const bool in_build_folder = moved && std::filesystem::exists(executable_path().parent_path() / "CMakeCache.txt");
  return in_build_folder ? *moved : "/";
}

/// First line of a small file such as those in /proc; no value if it cannot be read or is empty.
[[nodiscard]] inline std::optional<std::string> first_line(const std::filesystem::path& file) {
  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);
  return line.empty() ? std::nullopt : std::optional(line);
}

/// The value behind `key` in such a file: "EPYC" behind "model name" in "model name : EPYC". No value if it has none.
[[nodiscard]] inline std::optional<std::string> value_of_key(const std::filesystem::path& file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t value = line.find_first_not_of(" \t:=", key.size());
    return value == std::string::npos ? std::nullopt : std::optional(line.substr(value));
  }
  return std::nullopt;
}

/// The number with which such a text begins.
[[nodiscard]] inline std::optional<std::int64_t> leading_number(const std::optional<std::string>& text) {
  std::int64_t number = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

}  // namespace mn::launcher
