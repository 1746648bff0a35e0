/// The launchers that mnlaunch knows, innermost first. Each row says how to recognize a launcher, whether its server
/// must be asked, and how the launcher places a rank. Launchers nest (mpirun in a Slurm allocation, srun in a batch
/// script), and each leaves its variables to its children. The innermost live launcher decides; the variables of the
/// others are stale and ignored.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/launcher_variables.hpp>

#include "place/placement.hpp"

namespace mn::launcher {

/// How the ranks of one launcher find their placement.
struct LauncherRow {
  Launcher launcher;
  /// Whether the launcher started this process. Called only if no launcher of the rows above started it.
  bool (*started)(const Signs&);
  /// Whether the launcher's variables leave open where ranks run, so that the launcher's server must be asked.
  bool (*needs_server)(const Signs&);
  /// Returns the placement of this rank. `server` is the server's description of the job; no value if the server was
  /// not asked or did not answer. Throws UsageError if variables are incomplete or malformed, or if they contradict a
  /// second launcher's variables and no server decides between the two.
  Placement (*place)(const Signs&, const std::optional<ServerJob>& server);
};

/// All rows, the innermost launcher first. The last row, for a process without a launcher, matches every process.
[[nodiscard]] std::span<const LauncherRow> launchers();

/// The innermost live launcher.
[[nodiscard]] const LauncherRow& innermost_launcher(const Signs& signs);

/// The innermost live launcher among the rows below PMIx, for a process whose PMIx server does not answer.
[[nodiscard]] const LauncherRow& launcher_without_server(const Signs& signs);

/// Calls row.place() and checks the result. Throws UsageError.
[[nodiscard]] Placement find_placement(const LauncherRow& row, const Signs& signs,
                                       const std::optional<ServerJob>& server);

/// Throws UsageError if torchrun started this process: all workers of torchrun would have one rank.
void reject_torchrun(const Variables& variables);

/// Call this for a process without a launcher. Throws UsageError if there must be other ranks, because each rank would
/// become a job of its own: in an allocation of several tasks, under a launcher whose variables are gone, or with RANK
/// and WORLD_SIZE from a shell loop or Kubernetes.
void reject_one_of_many(const Variables& variables);

/// Whether `job` is the name of a step of srun --mpi=pmix.
[[nodiscard]] bool is_slurm_pmix(const std::string& job);

/// Whether srun started this rank, with or without PMIx.
[[nodiscard]] bool is_by_slurm(const Placement& here);

/// The error that a launcher's variables do not tell which ranks share a node. All ranks throw it.
class NoLocalRanks : public UsageError {
 public:
  using UsageError::UsageError;
};

}  // namespace mn::launcher
