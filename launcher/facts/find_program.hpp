/// Finds PROGRAM.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <mn/core/error.hpp>

namespace mn::launcher {

/// PROGRAM cannot be run (126) or found (127).
class ProgramError : public Error {
 public:
  ProgramError(const std::string& what, int exit_code) : Error(what), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const noexcept override { return exit_code_; }

 private:
  int exit_code_;
};

/// Whether the path is a regular file visible to this process.
[[nodiscard]] bool is_file(const std::filesystem::path& path);

/// Candidates for the file `name`: relative to `folder` if it has a slash, else in the folders of `search_path` (as
/// PATH).
[[nodiscard]] std::vector<std::filesystem::path> paths_of(const std::string& name, const std::filesystem::path& folder,
                                                          const std::string& search_path);

/// The executable regular file `name`: relative to `folder` if it has a slash (jobs/mnist, ./train), else in the
/// folders of `search_path` (as PATH), never in the current folder; last in `beside`. Folders called `name` are
/// ignored. Throws ProgramError.
[[nodiscard]] std::filesystem::path find_program(const std::string& name, const std::filesystem::path& folder,
                                                 const std::filesystem::path& beside, const std::string& search_path);

}  // namespace mn::launcher
