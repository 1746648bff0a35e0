/// Signals to a process that stays as the parent of a program.
#pragma once

#include <csignal>

#include <sys/types.h>

namespace mn::launcher {

/// From here on `program` gets each signal to this process once, be it sent to this process alone or to all processes
/// of the rank, by a terminal, a launcher or a batch system: at once, or one process after the other within half a
/// second, by which the others come later. Forks a process, which ends with this one. Call it with all signals blocked;
/// `mask` is what both processes have blocked afterwards. Throws Error.
void pass_signals_on(pid_t program, const sigset_t& mask);

/// From here on signals do to this process what they did before.
void pass_no_signals();

}  // namespace mn::launcher
