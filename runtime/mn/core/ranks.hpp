/// What launchers, mnlaunch and programs agree on: the variables that hold a rank, and the numbers of nodes.
///
/// Variables: mpiexec(1) of Open MPI (PMIX_*, OMPI_*), MPICH's Hydra (PMI_*, MPI_*), MVAPICH2's mpirun_rsh (MV2_*),
/// jsrun(1) (JSM_*), flux-run(1) (FLUX_*), PALS' mpiexec(1) (PALS_*), srun(1) (SLURM_*).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mn {

/// The names under which a launcher passes a rank its placement.
struct LauncherVariables {
  const char* launcher;  ///< for people
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* job;  ///< the same on all ranks, and no other job's
};

/// PMI's row is last: other launchers set some of its variables too. A PMIx server and Slurm tell more than a rank and
/// a size, and have no row.
inline constexpr LauncherVariables kLauncherVariables[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
     "MPIRUN_ID"},
    {"JSM", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE",
     "LSB_JOBID"},
    {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "FLUX_JOB_ID"},
    {"PALS", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PMI_LOCAL_SIZE", "PALS_APID"},
    {"Hydra (PMI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_PORT"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "PMI_JOBID"},
};
/// The rows of launchers that are PMI servers.
inline constexpr std::span<const LauncherVariables> kPmiVariables = std::span(kLauncherVariables).last<2>();

/// A variable's value; no value if it is unset or empty. mn::environment is one, a snapshot of variables another.
using VariableLookup = std::function<std::optional<std::string>(const char* name)>;

/// What the innermost launcher's variable for the rank holds, be it a rank or not: PMIx, then kLauncherVariables, then
/// Slurm, whose variables a batch script leaves to all that it starts. Ignores MN_RANK and RANK, which an mnlaunch or
/// torchrun outside of this launcher may have exported.
[[nodiscard]] std::optional<std::string> rank_text_of_launcher(const VariableLookup& lookup);

/// The rank of a program before it has called MPI_Init: MN_RANK, RANK, then the launchers' variables. Passes over a
/// variable that holds no rank.
[[nodiscard]] std::optional<int> rank_of_environment(const VariableLookup& lookup);

/// A process among those that a launcher started together.
struct JobRank {
  int rank = 0;          ///< 0 … size − 1
  int size = 1;          ///< processes
  std::string job = {};  ///< the same for all of them, and no other job's; empty where no variable tells
};

/// Rank and size by the innermost launcher's variables. Ignores those of mnlaunch and torchrun.
[[nodiscard]] std::optional<JobRank> job_rank_of_launcher(const VariableLookup& lookup);

/// For a program without MPI: MN_RANK and MN_SIZE, RANK and WORLD_SIZE, or the launchers' variables, where both are
/// there and match. Rank 0 of 1 without a launcher, and in batch scripts and interactive shells of Slurm.
[[nodiscard]] JobRank job_rank_of_environment(const VariableLookup& lookup);

/// Ranks that the launcher, or mnlaunch, started on this node; 1 where no variable tells.
[[nodiscard]] int ranks_of_node(const VariableLookup& lookup);

/// `text` as a rank; no value if it is anything but a whole number that is not negative.
[[nodiscard]] std::optional<int> parse_rank(const std::string& text);

/// True in a process that srun started as a task; false in batch scripts and interactive shells of an allocation.
[[nodiscard]] bool in_slurm_step(const VariableLookup& lookup);

/// For a rank that leaves an error to rank 0, before it exits: sleeps for two seconds. Launchers end all ranks at the
/// first bad exit, and rank 0 may be behind.
void let_rank_zero_speak();

/// The number of each rank's node, when ranks with equal keys share a node. Nodes are numbered by first appearance,
/// which is the order of their lowest ranks.
template <typename Key>
[[nodiscard]] std::vector<int> number_nodes(std::span<const Key> key_of_rank) {
  std::map<Key, int> numbers;
  std::vector<int> nodes;
  nodes.reserve(key_of_rank.size());
  for (const Key& key : key_of_rank) {
    nodes.push_back(numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second);
  }
  return nodes;
}

}  // namespace mn
