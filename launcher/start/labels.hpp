/// --label: each line of output begins with the rank.
///
/// The program then is a child of this process, which stands between its output and the launcher's streams until it has
/// ended; for processes that it leaves behind, another one does so further on. Signals reach the program once
/// (pass_signals.hpp). This process ends as the program does: with its exit status, or by its signal. If this process
/// is killed, so is the program. It is not the program that stays: slurmstepd kills what it finds at the end of the
/// last task, and would kill a copier with the last lines.
#pragma once

#include <string>

namespace mn::launcher {

/// Forks. Returns in the child, which is to become the program; the parent never returns. A line is what ends with \n
/// or \r, or 64 KiB without either. Throws Error.
void label_output(const std::string& label);

}  // namespace mn::launcher
