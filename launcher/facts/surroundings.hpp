/// Where a rank's facts come from.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
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

}  // namespace mn::launcher
