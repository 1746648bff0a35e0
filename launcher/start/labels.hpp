/// Implements the option --label: the rank stands before each line of output.
///
/// mnlaunch stays as the parent of the program, and copies the program's output to its own streams. If processes
/// outlive the program, a forked process copies their output. Each signal reaches the program once. mnlaunch ends with
/// the program's exit status or signal. If mnlaunch is killed, the program is killed, too.
///
/// The parent copies and the child becomes the program, not the other way round: when the last task ends, slurmstepd
/// kills all processes, and a copying child would die before it has copied the last lines.
#pragma once

#include <string>

namespace mn::launcher {

/// Forks. Returns only in the child, which becomes the program. A line ends with \n, \r or after 64 KiB. Throws Error.
void label_output(const std::string& label);

}  // namespace mn::launcher
