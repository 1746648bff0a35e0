/// Whether the kernel will run a program, found out without running it: the ranks agree on the start before any of them
/// becomes the program.
#pragma once

#include <filesystem>

namespace mn::launcher {

/// `program` is an executable file. Throws ProgramError (126) if execve(2) will refuse it: a script without its
/// interpreter, a program without its dynamic loader, a file that is neither.
void check_runnable(const std::filesystem::path& program);

}  // namespace mn::launcher
