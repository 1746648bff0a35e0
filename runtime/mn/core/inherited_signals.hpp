/// Signals that the parent process left blocked or ignored: exec(2) preserves both.
#pragma once

namespace mn {

/// Undoes harmful settings; mn::Job and every program of mn begin with this call.
///
/// Unblocks the signals that the process inherited as blocked, in the calling thread and its future threads: else a
/// scheduler's notice would never arrive. Resets SIGCHLD if the process began with SIGCHLD ignored: else waitpid(2)
/// could not tell how a child ended. Keeps all further ignored signals (SIGHUP under nohup, SIGINT in the background of
/// a shell), and all settings of the program since main() began.
void reset_inherited_signals() noexcept;

}  // namespace mn
