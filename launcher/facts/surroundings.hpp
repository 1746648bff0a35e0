/// Describes where a rank's facts come from. Also finds out which nodes share the folder for the program's results:
/// rank 0 puts a marker file into the folder, and nodes that see the marker share the folder.
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
  /// How long to wait for the dynamic loader's list of libraries. A program with many libraries on a cold network file
  /// system takes seconds to load.
  std::chrono::milliseconds loader_patience{20'000};
};

/// The folder below which /proc, /sys and /dev are read. `moved`: the value of MN_HARDWARE_ROOT, which tests set. An
/// installed mnlaunch ignores `moved`, and the folder is /.
[[nodiscard]] inline std::filesystem::path hardware_root(const std::optional<std::string>& moved) {
  const bool in_build_folder = moved && std::filesystem::exists(executable_path().parent_path() / "CMakeCache.txt");
  return in_build_folder ? *moved : "/";
}

/// The folder for the program's results: the value of --out among the program's arguments, or the current folder
/// without --out. If the folder does not exist, returns its nearest existing parent.
[[nodiscard]] std::filesystem::path output_folder(const Surroundings& here);

/// While an object lives, an empty file marks a folder. Nodes that see the file share the folder. Only one object may
/// live at a time. A signal that ends the process removes the file, too. The next start in the folder removes markers
/// of killed starts that are over an hour old.
class Marker {
 public:
  Marker(const std::filesystem::path& folder, const std::string& name);
  ~Marker();
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  /// The name of the file; empty if it could not be made.
  [[nodiscard]] std::string name() const { return path_.filename().string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace mn::launcher
