/// The end of mnlaunch: this process becomes the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "place/variables.hpp"

namespace mn::launcher {

/// Replaces this process by `program` with `arguments` (argv, the name first) and `environment`. Throws ProgramError.
[[noreturn]] void replace_process(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                  const Variables& environment);

}  // namespace mn::launcher
