/// Finding PROGRAM.
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

/// Whether it is a regular file that this process can see.
[[nodiscard]] bool is_file(const std::filesystem::path& path);

/// Where the file `name` may be: with a slash in it relative to `folder`, else in the folders of `search_path` (as
/// PATH).
[[nodiscard]] std::vector<std::filesystem::path> paths_of(const std::string& name, const std::filesystem::path& folder,
                                                          const std::string& search_path);

/// The executable regular file `name`: with a slash in it (jobs/mnist, ./train) relative to `folder`, without one in
/// the folders of `search_path` (as PATH), so that `python` is never a file that happens to lie here; else in `beside`.
/// A folder called `name` is passed over. Throws ProgramError.
[[nodiscard]] std::filesystem::path find_program(const std::string& name, const std::filesystem::path& folder,
                                                 const std::filesystem::path& beside, const std::string& search_path);

}  // namespace mn::launcher
