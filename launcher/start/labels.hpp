/// --label: each line of output begins with the rank.
///
/// mnlaunch stays as the program's parent and copies the program's output to the launcher's streams; a forked process
/// copies the output of processes that outlive the program. Each signal reaches the program once. mnlaunch ends as the
/// program does, by exit status or signal; if mnlaunch is killed, the program is killed, too. The parent copies and the
/// child becomes the program, not the reverse: slurmstepd kills all processes when the last task ends, and would kill a
/// child that still has to copy the last lines.
#pragma once

#include <string>

namespace mn::launcher {

/// Forks. Returns only in the child, which becomes the program; the parent copies the output and never returns. A line
/// ends with \n or \r, or after 64 KiB. Throws Error.
void label_output(const std::string& label);

}  // namespace mn::launcher
