/// The surroundings of a rank: variables, folders and arguments from which its facts are read. Also finds out which
/// nodes share the folder for the program's results. Rank 0 puts a marker file into its folder; the nodes that see the
/// marker file share the folder.
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
  /// How long to wait until the dynamic loader has listed the program's libraries. This takes seconds for a program
  /// with many libraries on a network file system, if the node has not cached them.
  std::chrono::milliseconds loader_patience{20'000};
};

/// The folder below which /proc, /sys and /dev are read. `moved` is the value of the variable MN_HARDWARE_ROOT, which
/// tests set. Only an mnlaunch in a build folder obeys `moved`; an installed mnlaunch returns /.
[[nodiscard]] inline std::filesystem::path hardware_root(const std::optional<std::string>& moved) {
  const bool in_build_folder = moved && std::filesystem::exists(executable_path().parent_path() / "CMakeCache.txt");
  return in_build_folder ? *moved : "/";
}

/// The folder for the program's results: the value of the program's option --out, or the current folder if the program
/// has no such option. If the folder does not exist, returns the nearest existing parent.
[[nodiscard]] std::filesystem::path output_folder(const Surroundings& here);

/// Marks a folder by an empty file, which exists while the Marker lives. Nodes that see the file share the folder. Only
/// one Marker may live at a time. A signal that ends the process removes the file, too. If an mnlaunch was killed, the
/// file stays behind, and the next mnlaunch in the folder removes files over an hour old.
class Marker {
 public:
  Marker(const std::filesystem::path& folder, const std::string& name);
  ~Marker();
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  /// The name of the marker file; empty if the file could not be made.
  [[nodiscard]] std::string name() const { return path_.filename().string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace mn::launcher
