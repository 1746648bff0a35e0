/// What exec(2) hands on from a process's parent: blocked signals, and ignored ones.
#pragma once

namespace mn {

/// Every program of mn calls it first, and mn::Job does. Unblocks the signals that this process began with as blocked,
/// in the calling thread and those that it starts: a scheduler's notice would never arrive. SIGCHLD has its default
/// action again if this process began with it ignored: waitpid(2) would not tell how a child has ended. Ignored signals
/// stay ignored otherwise (SIGHUP under nohup, SIGINT in the background of a shell), and so does all that the program
/// itself has set since main() began.
void reset_inherited_signals() noexcept;

}  // namespace mn
