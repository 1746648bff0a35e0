/// Finds PROGRAM, and tells whether the kernel will run it, without running it. The ranks need this before the start,
/// because they agree on the start before any rank becomes the program. Finds libraries as the dynamic loader would,
/// without loading them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/error.hpp>

namespace mn::launcher {

/// PROGRAM cannot be run (exit code 126), or is not found (exit code 127).
class ProgramError : public Error {
 public:
  ProgramError(const std::string& what, int exit_code) : Error(what), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const noexcept override { return exit_code_; }

 private:
  int exit_code_;
};

/// Finds the executable regular file `name`. A name with a slash (jobs/mnist, ./train) is relative to `folder`. Other
/// names are looked for in the folders of `search_path` (as PATH), not in the current folder. The folder `beside` is
/// tried last. Folders called `name` are ignored. Throws ProgramError.
[[nodiscard]] std::filesystem::path find_program(const std::string& name, const std::filesystem::path& folder,
                                                 const std::filesystem::path& beside, const std::string& search_path);

/// Throws ProgramError (exit code 126) if execve(2) would refuse `program`, which must be an executable file. execve(2)
/// refuses a script whose interpreter is missing, a program whose dynamic loader is missing, and a file that is neither
/// script nor program.
void check_runnable(const std::filesystem::path& program);

/// Throws ProgramError (exit code 127) if `program` is an interpreter whose first argument names a missing script. bash
/// also looks for the script in `search_path`. Without this check, each rank's interpreter would report the error.
void check_script(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                  const std::filesystem::path& folder, const std::string& search_path);

/// The file of library `name`; no value if it is not found. Searches the folders of `library_path` (as
/// LD_LIBRARY_PATH), then the loader's cache, then the loader's standard folders. Cache and standard folders are looked
/// up below `root`. RUNPATH is not searched. Source: ld.so(8).
[[nodiscard]] std::optional<std::filesystem::path> find_library(const std::string& name,
                                                                const std::string& library_path,
                                                                const std::filesystem::path& root);

/// Folders in which further libraries of `program`'s MPI may lie: the folder of the program's libmpi, and the folders
/// in libmpi's RUNPATH. Empty if the program needs no libmpi.
[[nodiscard]] std::vector<std::filesystem::path> folders_of_mpi(const std::filesystem::path& program,
                                                                const std::string& library_path);

}  // namespace mn::launcher
