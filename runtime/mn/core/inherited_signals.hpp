/// Repairs signals that the parent process left blocked or ignored, because exec(2) preserves both settings.
#pragma once

namespace mn {

/// Unblocks the signals that the process inherited as blocked, in the calling thread and in threads that it starts
/// later; otherwise a scheduler's warning signal would never arrive. Resets SIGCHLD if the process began with SIGCHLD
/// ignored; otherwise waitpid(2) could not tell how a child ended. All other ignored signals stay ignored (SIGHUP under
/// nohup, SIGINT in the background of a shell). All settings that the program has made since main() began stay, too.
/// Call it first, as mn::Job and every program of mn do.
void reset_inherited_signals() noexcept;

}  // namespace mn
