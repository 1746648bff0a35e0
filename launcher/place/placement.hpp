/// Which rank this process is, and what its launchers left by which it can tell.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "place/layout.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

enum class Launcher {
  kNone,       ///< started by hand: rank 0 of 1
  kPmix,       ///< a PMIx server: Open MPI's mpiexec, PRRTE, srun --mpi=pmix
  kPmi,        ///< a PMI-1 server: MPICH's or Intel's Hydra, Flux
  kSlurm,      ///< a Slurm step without PMIx (srun --mpi=none or pmi2)
  kVariables,  ///< variables alone: Open MPI or Hydra without their servers, MVAPICH2, PALS, ALPS, JSM
};

/// The launchers' variables, and what several rows of the table of launchers ask of them.
struct Signs {
  const Variables& variables;
  bool in_slurm_step = false;
  bool is_hydra = false;
  bool is_flux = false;
  bool has_live_pmi = false;  ///< PMI_FD is an open socket: the server of the innermost launcher
};
/// `is_socket(fd)`: whether the descriptor is an open socket of this process, by which a live PMI_FD differs from one
/// that was inherited as text only. `variables` must outlive the result.
[[nodiscard]] Signs read_signs(const Variables& variables, const std::function<bool(int)>& is_socket);

/// A PMIx or PMI server's description of the job.
struct ServerJob {
  std::string name_space;  ///< slurm.pmix.JOB.STEP for srun; no other job has the same
  int rank = 0;
  std::vector<int> node_ids;       ///< [size] the server's number for the node of each rank
  std::vector<std::string> hosts;  ///< [size] its name for that node
};

/// The value of inter_size for several nodes, of which the launcher tells neither their number nor which is this one.
inline constexpr int kNotKnown = 0;

/// The number of a rank, or its position on its node, that nothing sound tells.
inline constexpr int kNobody = -1;

/// Where a rank is: its number on its node, and its node's among the nodes.
struct NodeNumbers {
  int intra_rank = 0;  ///< position among the ranks of this node, by rank
  int intra_size = 1;
  int inter_rank = 0;  ///< number of this node: as the launcher counts, and after the first round as ChainerMN does
  int inter_size = 1;  ///< or kNotKnown
};

struct Placement : NodeNumbers {
  int rank = 0;
  int size = 1;
  Launcher launcher = Launcher::kNone;
  std::string source;              ///< for people: "PMIx slurm.pmix.7.0", "Hydra", …
  std::string job;                 ///< the same on all ranks and no other job's: seeds MASTER_PORT
  std::vector<std::string> hosts;  ///< [inter_size] names of the nodes; empty: not known
  /// Contradictions between sources of the launcher that decided; each names both values.
  std::vector<std::string> conflicts;
  std::string error;  ///< why the numbers cannot be right: the ranks of the node are told so, and none starts
};

/// Notes that `name` contradicts the `value` of what `meaning` names, if it does.
void note_conflict(Placement& here, const Variables& variables, const std::string& name, int value,
                   const std::string& meaning);

/// Takes from the layout all that follows from here.rank.
void take_layout(Placement& here, const Layout& layout);

/// The variable that holds one of the numbers; else kNobody, and here.error says why.
[[nodiscard]] int number_or_error(Placement& here, const Variables& variables, const std::string& name);

/// Sets here.error if a number is outside of its range. Throws UsageError where the node's is: nobody can be told.
void check_ranges(Placement& here);

/// Where rank 0 can be reached. An empty address is not known, and not exported.
struct Master {
  std::string address;
  int port = 0;
};

}  // namespace mn::launcher
