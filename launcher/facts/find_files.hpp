/// Finds PROGRAM and libraries, and tells whether the kernel will run PROGRAM, before any rank becomes the program.
/// Runs and loads nothing.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <mn/core/error.hpp>

namespace mn::launcher {

/// PROGRAM cannot be run (exit code 126) or is not found (exit code 127).
class ProgramError : public Error {
 public:
  ProgramError(const std::string& what, int exit_code) : Error(what), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const noexcept override { return exit_code_; }

 private:
  int exit_code_;
};

/// Returns the executable `name`: relative to `folder` if the name has a slash, else in the folders of `search_path`
/// (as in PATH, but not the current folder), and last in `beside`. Throws ProgramError.
[[nodiscard]] std::filesystem::path find_program(const std::string& name, const std::filesystem::path& folder,
                                                 const std::filesystem::path& beside, const std::string& search_path);

/// Throws ProgramError (exit code 126) if execve(2) would refuse `program`: its interpreter or dynamic loader is
/// missing, or it is neither a script nor a program. env(1) looks for the interpreter in `search_path`.
void check_runnable(const std::filesystem::path& program, const std::string& search_path);

/// Throws ProgramError (exit code 127) if the first argument of an interpreter, such as python, names a missing script;
/// otherwise the interpreters of all ranks would report the error. bash also looks in `search_path`.
void check_script(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                  const std::filesystem::path& folder, const std::string& search_path);

/// Returns the interpreter that the first line of the script `file` names, as "/bin/sh"; for "#!/usr/bin/env python3",
/// python3 of `search_path`. Empty if `file` is not a script, or its interpreter is not found.
[[nodiscard]] std::filesystem::path interpreter_of(const std::filesystem::path& file, const std::string& search_path);

/// Returns the file of the library `name`, from the folders of `library_path` (as in LD_LIBRARY_PATH), or, below
/// `root`, from the loader's cache or the standard folders. RUNPATH is not searched. Source: ld.so(8).
[[nodiscard]] std::optional<std::filesystem::path> find_library(const std::string& name,
                                                                const std::string& library_path,
                                                                const std::filesystem::path& root);

/// Returns folders of the program's MPI, for example for libpmix: the folder of libmpi, and the folders in its RUNPATH.
[[nodiscard]] std::vector<std::filesystem::path> folders_of_mpi(const std::filesystem::path& program,
                                                                const std::string& library_path);

}  // namespace mn::launcher
