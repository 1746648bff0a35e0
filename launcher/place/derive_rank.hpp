/// The table of launchers that mnlaunch knows. Launchers nest, for example mpirun in a Slurm allocation, and leave
/// their variables to their children. The innermost launcher that still runs decides; variables of others are stale.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/launcher_variables.hpp>

#include "place/placement.hpp"

namespace mn::launcher {

/// How to recognize a launcher, and how its ranks find their placement.
struct LauncherRow {
  Launcher launcher;
  /// Whether this launcher started this process, if no launcher of an earlier row did.
  bool (*started)(const Signs&);
  /// Whether the launcher's server must be asked, because variables do not tell where all ranks run.
  bool (*needs_server)(const Signs&);
  /// Returns the placement of this rank. `server` has no value if the server was not asked or did not answer. Throws
  /// UsageError if variables are incomplete or malformed, or if no server decides a contradiction between launchers.
  Placement (*place)(const Signs&, const std::optional<ServerJob>& server);
};

/// All rows, innermost launcher first. The last row matches every process, even without a launcher.
[[nodiscard]] std::span<const LauncherRow> launchers();

[[nodiscard]] const LauncherRow& innermost_launcher(const Signs& signs);

/// The innermost launcher in the rows after PMIx, for a silent PMIx server.
[[nodiscard]] const LauncherRow& launcher_without_server(const Signs& signs);

/// Calls row.place() and checks the ranges of the result's numbers. Throws UsageError.
[[nodiscard]] Placement find_placement(const LauncherRow& row, const Signs& signs,
                                       const std::optional<ServerJob>& server);

/// Throws UsageError if torchrun started this process: all workers of torchrun would have the same rank.
void reject_torchrun(const Variables& variables);

/// Throws UsageError if a process without a launcher seems to be one rank of several: in an allocation of several
/// tasks, without its launcher's variables, or with RANK and WORLD_SIZE from a shell loop or Kubernetes.
void reject_one_of_many(const Variables& variables);

/// Whether `job` is the name of a Slurm step started by srun --mpi=pmix.
[[nodiscard]] bool is_slurm_pmix(const std::string& job);

/// Whether srun started this rank, with or without PMIx.
[[nodiscard]] bool is_by_slurm(const Placement& here);

/// The launcher's variables do not tell which ranks share a node. All ranks throw this error.
class NoLocalRanks : public UsageError {
 public:
  using UsageError::UsageError;
};

}  // namespace mn::launcher
