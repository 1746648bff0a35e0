/// --label: each line of output begins with the rank.
///
/// mnlaunch stays as the program's parent and copies the program's output to the launcher's streams; a fork copies on
/// for processes that outlive the program. Signals reach the program once. mnlaunch ends as the program does, by exit
/// status or signal; if mnlaunch is killed, the program is killed, too. The roles are not exchanged, because slurmstepd
/// kills all processes at the end of the last task, and would kill a copier with the last lines.
#pragma once

#include <string>

namespace mn::launcher {

/// Forks. Returns in the child, which becomes the program; the parent never returns. A line ends with \n or \r, or
/// after 64 KiB. Throws Error.
void label_output(const std::string& label);

}  // namespace mn::launcher
