/// Signals to a process that stays as the parent of a program.
#pragma once

#include <csignal>

#include <sys/types.h>

namespace mn::launcher {

/// From now on `program` gets each signal to this process once, whether a terminal, launcher or batch system sends it
/// to this process alone or, at once or within half a second, to all processes of the rank. Forks a process that ends
/// with this one. Call it with all signals blocked; afterwards both processes have `mask` blocked. Throws Error.
void pass_signals_on(pid_t program, const sigset_t& mask);

/// Restores the former actions of the signals in this process.
void pass_no_signals();

}  // namespace mn::launcher
