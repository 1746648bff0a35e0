/// What one node, and one rank, tell the others before the start. JSON, so that checks can be tested without machines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <mn/core/json.hpp>

#include "place/variables.hpp"

namespace mn::launcher {

using Facts = nlohmann::json;

/// Where facts come from.
struct Surroundings {
  std::filesystem::path root = "/";  ///< /proc, /sys and /dev are read below it; tests move it
  Variables variables;
  std::filesystem::path folder;   ///< the current one
  std::filesystem::path program;  ///< empty if it was not found
  std::string program_error;      ///< why not
  std::vector<std::string> arguments;
  std::vector<std::filesystem::path> check_files;
};

/// {"limits", "shm", "cpu", "user", "folders", …}: kernel, memory, files. Reads /proc and /sys, starts nothing.
[[nodiscard]] Facts system_facts(const Surroundings& here);
/// {"program", "mnlaunch", "mpiexec", "script", "libraries", "missing", "mpi"}: what will run, down to build ids.
/// Starts the dynamic loader once to list the libraries as it will find them.
[[nodiscard]] Facts program_facts(const Surroundings& here);
/// Values of the variables that change how a job runs, long ones shortened.
[[nodiscard]] Facts environment_facts(const Variables& variables);
/// One entry for each --check-file.
[[nodiscard]] Facts file_facts(const std::vector<std::filesystem::path>& files);

/// Hashes of NCCL's configuration files, and its network plugin as the loader finds it.
[[nodiscard]] Facts nccl_facts(const Surroundings& here);

/// PATH without the folders that every system has: what is left leads to other programs.
[[nodiscard]] std::string own_path_folders(const std::string& path);

/// Where the program will write: the value of --out among its arguments, else the current folder; the nearest folder
/// above that exists already.
[[nodiscard]] std::filesystem::path output_folder(const Surroundings& here);

/// An empty file that lies in a folder for as long as this lives, so that other nodes can tell whether theirs is the
/// same folder.
class Marker {
 public:
  Marker(const std::filesystem::path& folder, const std::string& name);
  ~Marker();
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  /// Its name; empty if it could not be made.
  [[nodiscard]] std::string name() const { return path_.filename().string(); }

 private:
  std::filesystem::path path_;
};

/// First line of a small file such as those in /proc; empty if it can't be read.
[[nodiscard]] std::string first_line(const std::filesystem::path& file);

}  // namespace mn::launcher
