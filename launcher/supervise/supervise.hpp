/// mnlaunch supervise: starts a failed step (a run of srun or mpiexec) again, in the same allocation.
///
/// supervise runs once, in a batch script or on a login node, and starts srun or mpiexec. With the ranks it shares only
/// the file MN_STATUS_FILE, in which rank 0 writes the progress of training.
///
/// 1. A host that cannot start a process is lost and not used again. Spare hosts replace lost hosts. If there is no
///    spare host, the next start has fewer ranks.
/// 2. The step is not started again if it would fail again: after wrong options, failed checks, a second failure at the
///    same iteration, or too many failures within an hour.
/// 3. The first signal of a scheduler is sent to the step once, as SIGUSR1, because the ranks then save a checkpoint.
///    The step is not started again. If the step dies of the signal before saving, supervise returns kExitRequeue.
/// 4. If srun ends the remaining ranks after a failure (-K), the failed rank's status counts: srun's own status only
///    tells that the others got SIGTERM.
#pragma once

#include "supervise/command.hpp"

namespace mn::launcher {

/// The options between the word `supervise` and the command.
struct SuperviseOptions {
  std::size_t restarts = 3;   ///< after more failures within an hour, supervise gives up
  std::size_t spares = 0;     ///< hosts to reserve as replacements
  std::size_t min_hosts = 1;  ///< with fewer hosts, supervise gives up
  Words command;
};

[[nodiscard]] const char* supervise_help();

/// Parses the arguments after the word `supervise`. Throws UsageError.
[[nodiscard]] SuperviseOptions parse_supervise(const Words& words);

/// Starts the step, again after failures. Returns the status of the last step, or kExitRequeue if the job could resume
/// from a checkpoint in another allocation.
[[nodiscard]] int supervise(const SuperviseOptions& options);

}  // namespace mn::launcher
