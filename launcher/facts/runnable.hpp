/// Whether the kernel will run a program, found out without running it: the ranks agree on the start before any of them
/// becomes the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mn::launcher {

/// `program` is an executable file. Throws ProgramError (126) if execve(2) will refuse it: a script without its
/// interpreter, a program without its dynamic loader, a file that is neither.
void check_runnable(const std::filesystem::path& program);

/// Throws ProgramError (127) if PROGRAM, whose file is `program`, is an interpreter, and the file that its first
/// argument names by its ending as a script is not there, nor for bash in `search_path`: each rank's interpreter would
/// say so.
void check_script(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                  const std::filesystem::path& folder, const std::string& search_path);

}  // namespace mn::launcher
