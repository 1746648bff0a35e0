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

/// Throws ProgramError (127) if PROGRAM is an interpreter, and the file that its first argument names by its ending as
/// a script is not there: each rank's interpreter would say so.
void check_script(const std::vector<std::string>& arguments, const std::filesystem::path& folder);

}  // namespace mn::launcher
