/// The sources of a rank's facts: variables, folders and arguments. Rank 0 puts a marker file into the folder for
/// results; nodes that see the marker share the folder.
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
  /// Time for the dynamic loader's list of libraries, which takes seconds on a network file system.
  std::chrono::milliseconds loader_patience{20'000};
};

/// The folder below which /proc, /sys and /dev are read. Tests set MN_HARDWARE_ROOT (`moved`); only an mnlaunch in a
/// build folder obeys it.
[[nodiscard]] inline std::filesystem::path hardware_root(const std::optional<std::string>& moved) {
  const bool in_build_folder = moved && std::filesystem::exists(executable_path().parent_path() / "CMakeCache.txt");
  return in_build_folder ? *moved : "/";
}

/// The nearest existing folder for the program's results: its option --out, or the current folder.
[[nodiscard]] std::filesystem::path output_folder(const Surroundings& here);

/// An empty file that exists while the Marker lives; a signal that ends the process removes it, too. Only one Marker
/// may live at a time. If mnlaunch is killed, the next mnlaunch in the folder removes the file after an hour.
class Marker {
 public:
  Marker(const std::filesystem::path& folder, const std::string& name);
  ~Marker();
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  [[nodiscard]] std::string name() const { return path_.filename().string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace mn::launcher
