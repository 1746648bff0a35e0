/// Signals that the parent process left blocked or ignored: exec(2) preserves both.
#pragma once

namespace mn {

/// Undoes what would harm; mn::Job and every program of mn call it first.
///
/// Unblocks the signals that were blocked when this process began, in the calling thread and its future threads: else a
/// scheduler's notice would never arrive. Resets SIGCHLD if the process began with SIGCHLD ignored: else waitpid(2)
/// could not tell how a child ended. Keeps other ignored signals (SIGHUP under nohup, SIGINT in the background of a
/// shell), and everything that the program itself has set since main() began.
void reset_inherited_signals() noexcept;

}  // namespace mn
