/// Tells whether the kernel will run a program, without running it: the ranks agree on the start before any rank
/// becomes the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mn::launcher {

/// `program` must be an executable file. Throws ProgramError (126) if execve(2) would refuse it: for a script without
/// interpreter, a program without dynamic loader, and any file that is neither.
void check_runnable(const std::filesystem::path& program);

/// For a `program` that is an interpreter: throws ProgramError (127) if its first argument has a script's ending and
/// the file is missing, for bash in `search_path`, too. Otherwise each rank's interpreter would report it.
void check_script(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                  const std::filesystem::path& folder, const std::string& search_path);

}  // namespace mn::launcher
