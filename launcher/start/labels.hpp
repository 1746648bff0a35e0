/// Implements the option --label: the rank stands before each line of output.
///
/// mnlaunch stays as the parent of the program, and copies the program's output to the streams that the launcher gave
/// mnlaunch. If processes outlive the program, a forked process copies their output. Each signal reaches the program
/// once. mnlaunch ends as the program does, with the same exit status or signal; if mnlaunch is killed, the program is
/// killed, too.
///
/// The parent copies and the child becomes the program, not the other way round, because slurmstepd kills all processes
/// when the last task ends. A copying child would be killed before it has copied the last lines.
#pragma once

#include <string>

namespace mn::launcher {

/// Forks. Returns only in the child, which becomes the program. A line ends with \n, \r or after 64 KiB. Throws Error.
void label_output(const std::string& label);

}  // namespace mn::launcher
