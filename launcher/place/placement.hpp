/// Which rank this process is: a pure function of the environment and, where that does not tell, of what a PMIx or PMI
/// server says.
///
/// Launchers nest (mpirun in a Slurm allocation, srun in a batch script), and each leaves its variables to its
/// children. The innermost one that is alive decides. Variables of the others are stale and ignored.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "place/variables.hpp"

namespace mn::launcher {

enum class Launcher {
  kNone,       ///< started by hand: rank 0 of 1
  kPmix,       ///< a PMIx server: Open MPI's mpiexec, PRRTE, srun --mpi=pmix
  kPmi,        ///< a PMI-1 server: MPICH's or Intel's Hydra, Flux
  kSlurm,      ///< a Slurm step without PMIx (srun --mpi=none or pmi2)
  kVariables,  ///< variables alone: Open MPI or Hydra without their servers, MVAPICH2, PALS, ALPS, JSM
};

/// A PMIx or PMI server's description of the job.
struct ServerJob {
  std::string name_space;  ///< slurm.pmix.JOB.STEP for srun; no other job has the same
  int rank = 0;
  std::vector<int> node_ids;       ///< [size] the server's number for the node of each rank
  std::vector<std::string> hosts;  ///< [size] its name for that node
};

/// The value of Placement::inter_size for several nodes, of which the launcher tells neither their number nor which is
/// this one.
inline constexpr int kNotKnown = 0;

struct Placement {
  int rank = 0;
  int size = 1;
  int intra_rank = 0;  ///< position among the ranks of this node, by rank
  int intra_size = 1;
  int inter_rank = 0;  ///< number of this node, as the launcher counts
  int inter_size = 1;  ///< or kNotKnown
  Launcher launcher = Launcher::kNone;
  std::string source;              ///< for people: "PMIx slurm.pmix.7.0", "Hydra", …
  std::string job;                 ///< the same on all ranks and no other job's: seeds MASTER_PORT
  std::vector<std::string> hosts;  ///< [inter_size] names of the nodes; empty: not known
  /// Contradictions between sources of the launcher that decided; each names both values.
  std::vector<std::string> conflicts;
};

/// The innermost live launcher. `is_socket(fd)`: whether the descriptor is an open socket of this process, by which
/// a live PMI_FD differs from one that was inherited as text only.
[[nodiscard]] Launcher innermost_launcher(const Variables& variables, const std::function<bool(int)>& is_socket);

/// The same where the PMIx server does not answer; kNone: there is no other.
[[nodiscard]] Launcher launcher_without_server(const Variables& variables);

/// Whether the job's name is that of a step of srun --mpi=pmix.
[[nodiscard]] bool is_slurm_pmix(const std::string& job);

/// Whether the variables of kPmix or kPmi leave open where the ranks are, so that the server must be asked.
[[nodiscard]] bool needs_server(const Variables& variables, Launcher launcher);

/// `server`: what it says, where needs_server(). Throws UsageError if the launcher's variables are incomplete or
/// malformed, or where nothing tells which of two launchers is alive.
[[nodiscard]] Placement find_placement(const Variables& variables, Launcher launcher,
                                       const std::optional<ServerJob>& server);

/// Where rank 0 can be reached. An empty address is not known, and not exported.
struct Master {
  std::string address;
  int port = 0;
};

}  // namespace mn::launcher
