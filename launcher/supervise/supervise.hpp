/// mnlaunch supervise: starts a failed step again, in the same allocation.
///
/// Runs once, in a batch script or on a login node, around srun or mpiexec. The ranks know of it only MN_STATUS_FILE,
/// in which rank 0 writes the progress of training.
///
/// 1. A host that cannot start a process takes no further part. Spare hosts replace lost hosts; without spares there
///    are fewer ranks.
/// 2. No start follows if it would fail again: after wrong options, failed checks, a second failure at one iteration,
///    and too many failures within an hour.
/// 3. A scheduler's signal goes to the step once, in a form that ranks can answer, and no start follows. A step that
///    dies of the signal before it can answer ends with the wish to be requeued.
/// 4. If srun ends the remaining ranks after a failure (-K), the failed rank's status counts: srun's own is SIGTERM's.
#pragma once

#include "supervise/command.hpp"

namespace mn::launcher {

/// The options between `supervise` and the command.
struct SuperviseOptions {
  std::size_t restarts = 3;   ///< failures within an hour that are answered with a start
  std::size_t spares = 0;     ///< hosts to keep back
  std::size_t min_hosts = 1;  ///< with fewer hosts it gives up
  Words command;
};

/// The text of `mnlaunch supervise --help`.
[[nodiscard]] const char* supervise_help();

/// `words`: the arguments after `supervise`. Throws UsageError.
[[nodiscard]] SuperviseOptions parse_supervise(const Words& words);

/// Returns the exit status: the last step's, or kExitRequeue if another allocation could resume from a checkpoint.
[[nodiscard]] int supervise(const SuperviseOptions& options);

}  // namespace mn::launcher
