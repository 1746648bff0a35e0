/// The end of mnlaunch: this process becomes the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "place/variables.hpp"

namespace mn::launcher {

/// Sends standard output and error to DIR/rank-0000.out and .err, for rank 0. Makes DIR. Throws UsageError.
void redirect_output(const std::filesystem::path& folder, int rank);

/// Replaces this process by `program` with `arguments` (argv, the name first) and `environment`. Throws ProgramError.
[[noreturn]] void replace_process(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                  const Variables& environment);

}  // namespace mn::launcher
