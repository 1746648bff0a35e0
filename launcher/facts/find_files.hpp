/// Finds PROGRAM and tells, without running PROGRAM, whether the kernel will run it. The ranks need the answer before
/// the start, because all ranks agree on the start before any rank becomes the program. Also finds libraries as the
/// dynamic loader would, without loading them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/error.hpp>

namespace mn::launcher {

/// The error that PROGRAM cannot be run (exit code 126) or is not found (exit code 127).
class ProgramError : public Error {
 public:
  ProgramError(const std::string& what, int exit_code) : Error(what), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const noexcept override { return exit_code_; }

 private:
  int exit_code_;
};

/// Returns the path of the executable regular file `name`. A name with a slash, such as ./train, is relative to
/// `folder`. Any other name is looked for in the folders of `search_path`, a list as in PATH, but not in the current
/// folder. The folder `beside` is tried last. Throws ProgramError.
[[nodiscard]] std::filesystem::path find_program(const std::string& name, const std::filesystem::path& folder,
                                                 const std::filesystem::path& beside, const std::string& search_path);

/// Throws ProgramError (exit code 126) if execve(2) would refuse to run the executable file `program`: a script whose
/// interpreter is missing, a program whose dynamic loader is missing, or a file that is neither a script nor a program.
void check_runnable(const std::filesystem::path& program);

/// Throws ProgramError (exit code 127) if `program` is an interpreter, such as python, and its first argument names a
/// script that does not exist. If the interpreter is bash, the script may also lie in a folder of `search_path`.
/// Without this check, the interpreter of every rank would report the error.
void check_script(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                  const std::filesystem::path& folder, const std::string& search_path);

/// Returns the file of the library `name`; no value if it is not found. Searches first the folders of `library_path` (a
/// list as in LD_LIBRARY_PATH), then the loader's cache, then the loader's standard folders. The cache and the standard
/// folders are taken below `root`. RUNPATH is not searched. Source: ld.so(8).
[[nodiscard]] std::optional<std::filesystem::path> find_library(const std::string& name,
                                                                const std::string& library_path,
                                                                const std::filesystem::path& root);

/// Returns folders in which further libraries of the program's MPI, for example libpmix, may lie: the folder of the
/// libmpi that the program needs, and the folders in that libmpi's RUNPATH. Empty if the program needs no libmpi.
[[nodiscard]] std::vector<std::filesystem::path> folders_of_mpi(const std::filesystem::path& program,
                                                                const std::string& library_path);

}  // namespace mn::launcher
