/// mnlaunch supervise: starts a step again, in the same allocation, when it fails.
///
/// Runs once, in a batch script or on a login node, around srun or mpiexec; the ranks know nothing of it but
/// MN_STATUS_FILE, in which rank 0 says how far training has come.
///
/// Invariants:
/// 1. A host on which nothing can be started any more takes part no further; spare hosts take its place, else there are
///    fewer ranks.
/// 2. It does not start again what cannot get better: wrong options, failed checks, a failure at the same iteration as
///    the one before, and more failures within an hour than it may.
/// 3. A signal of the scheduler goes to the step once, as one that its ranks can answer, and no start follows. A step
///    that dies of it before it can answer ends as one that wants to be requeued.
/// 4. Where srun ends the other ranks as one fails (-K), that one's status counts: srun's own says SIGTERM in any case.
#pragma once

#include "supervise/command.hpp"

namespace mn::launcher {

/// What stands between `supervise` and the command.
struct SuperviseOptions {
  std::size_t restarts = 3;   ///< within an hour
  std::size_t spares = 0;     ///< hosts that are kept back
  std::size_t min_hosts = 1;  ///< with fewer it gives up
  Words command;
};

/// What `mnlaunch supervise --help` prints.
[[nodiscard]] const char* supervise_help();

/// `words`: the arguments after `supervise`. Throws UsageError.
[[nodiscard]] SuperviseOptions parse_supervise(const Words& words);

/// Returns the exit status: the last step's, or kExitRequeue where another allocation could go on from a checkpoint.
[[nodiscard]] int supervise(const SuperviseOptions& options);

}  // namespace mn::launcher
