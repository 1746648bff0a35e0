/// mnlaunch supervise: starts a failed step, a run of srun or mpiexec, again in the same allocation.
///
/// Runs once, in a batch script or on a login node, around srun or mpiexec. Ranks and supervise share only the file
/// MN_STATUS_FILE, in which rank 0 writes the progress of training.
///
/// 1. A host that cannot start a process is lost and not used again. Spare hosts replace lost hosts; without spares,
///    the next start has fewer ranks.
/// 2. The step is not started again if it would fail again: after wrong options, failed checks, a second failure at the
///    same iteration, or too many failures within an hour.
/// 3. A scheduler's first signal goes to the step once, as SIGUSR1, on which the ranks save. The step is not started
///    again. If the step dies of the signal before it can save, supervise returns kExitRequeue.
/// 4. If srun ends the remaining ranks after a failure (-K), the failed rank's status counts, because srun's own status
///    is that of SIGTERM.
#pragma once

#include "supervise/command.hpp"

namespace mn::launcher {

/// The options between `supervise` and the command.
struct SuperviseOptions {
  std::size_t restarts = 3;   ///< after more failures within an hour, supervise gives up
  std::size_t spares = 0;     ///< hosts to reserve as replacements
  std::size_t min_hosts = 1;  ///< with fewer hosts, supervise gives up
  Words command;
};

/// The text of `mnlaunch supervise --help`.
[[nodiscard]] const char* supervise_help();

/// `words`: the arguments after `supervise`. Throws UsageError.
[[nodiscard]] SuperviseOptions parse_supervise(const Words& words);

/// Returns the exit status: the last step's status, or kExitRequeue if another allocation could resume from a
/// checkpoint.
[[nodiscard]] int supervise(const SuperviseOptions& options);

}  // namespace mn::launcher
