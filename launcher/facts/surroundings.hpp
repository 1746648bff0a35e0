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
  std::filesystem::path root = "/";  ///< /proc, /sys and /dev are read below it; tests change it
  Variables variables;
  std::filesystem::path folder;   ///< current folder
  std::filesystem::path program;  ///< empty if not found
  std::string program_error;      ///< why `program` is empty
  std::vector<std::string> arguments;
  std::vector<std::filesystem::path> check_files;
  /// Patience with the dynamic loader. A program with many libraries on a cold network file system takes seconds to
  /// load.
  std::chrono::milliseconds loader_patience{20'000};
};

/// `moved`: MN_HARDWARE_ROOT, which tests set. An installed program ignores it.
[[nodiscard]] inline std::filesystem::path hardware_root(const std::optional<std::string>& moved) {
  const bool in_build_folder = moved && std::filesystem::exists(executable_path().parent_path() / "CMakeCache.txt");
  return in_build_folder ? *moved : "/";
}

}  // namespace mn::launcher
