/// Finding PROGRAM and becoming it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <mn/core/error.hpp>

#include "place/variables.hpp"

namespace mn::launcher {

/// PROGRAM can't be run (126) or found (127), the exit statuses that shells use.
class ProgramError : public Error {
 public:
  ProgramError(const std::string& what, int exit_code) : Error(what), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const noexcept override { return exit_code_; }

 private:
  int exit_code_;
};

/// The executable regular file `name`: relative to `folder`, else in `beside`, else, for a name without a slash, in the
/// folders of `search_path` (as PATH). A folder called `name` is passed over. Throws ProgramError.
[[nodiscard]] std::filesystem::path find_program(const std::string& name, const std::filesystem::path& folder,
                                                 const std::filesystem::path& beside, const std::string& search_path);

/// Sends standard output and error to DIR/rank-0000.out and .err, for rank 0. Makes DIR. Throws UsageError.
void redirect_output(const std::filesystem::path& folder, int rank);

/// Replaces this process by `program` with `arguments` (argv, the name first) and `environment`. Throws ProgramError.
[[noreturn]] void become(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                         const Variables& environment);

}  // namespace mn::launcher
