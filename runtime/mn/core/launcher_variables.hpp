/// Reads a process's rank from the environment variables of launchers, and numbers nodes.
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

/// Names of the environment variables in which a launcher tells a process its rank, the number of ranks, and the job.
struct LauncherVariables {
  const char* launcher;  ///< the launcher's name in messages
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* job;  ///< variable that is equal on all ranks, and different for every other job
};

/// PMI's rows are last, because other launchers set PMI's variables, too. PMIx and Slurm need code of their own, so
/// they have no row.
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

/// Returns the value of a variable; no value if it is unset or empty. Examples are mn::environment and a look-up in a
/// snapshot of the variables.
using VariableLookup = std::function<std::optional<std::string>(const char* name)>;

/// Returns the text of the innermost launcher's rank variable. The text may be malformed. Searches first for PMIx, then
/// for the rows of kLauncherVariables, and last for Slurm, because a batch script passes Slurm's variables on to every
/// process. Ignores MN_RANK and RANK, because an outer mnlaunch or torchrun may have exported them.
[[nodiscard]] std::optional<std::string> rank_text_of_launcher(const VariableLookup& lookup);

/// The rank of a program before MPI_Init: the first valid number in MN_RANK, RANK and the launchers' variables, in this
/// order.
[[nodiscard]] std::optional<int> rank_of_environment(const VariableLookup& lookup);

/// The rank of a process among all processes that a launcher started together.
struct JobRank {
  int rank = 0;          ///< from 0 to size − 1
  int size = 1;          ///< number of processes
  std::string job = {};  ///< equal for all processes of the job, and different for every other job; may be empty
};

/// The rank and the number of processes from the innermost launcher's variables, without mnlaunch's and torchrun's.
[[nodiscard]] std::optional<JobRank> job_rank_of_launcher(const VariableLookup& lookup);

/// The rank and the number of processes for a program without MPI. The first consistent pair of variables counts. The
/// pairs are MN_RANK and MN_SIZE, then RANK and WORLD_SIZE, then those of launchers. Without a launcher, and in batch
/// scripts and interactive shells of Slurm, returns rank 0 of 1 process.
[[nodiscard]] JobRank job_rank_of_environment(const VariableLookup& lookup);

/// Number of ranks that the launcher or mnlaunch started on this node; 1 if no variable tells the number.
[[nodiscard]] int ranks_of_node(const VariableLookup& lookup);

/// Parses `text` as a rank. No value unless it is a whole number of at least 0.
[[nodiscard]] std::optional<int> parse_rank(const std::string& text);

/// True in a task that srun has started. False in batch scripts and interactive shells of a Slurm allocation.
[[nodiscard]] bool in_slurm_step(const VariableLookup& lookup);

/// Sleeps two seconds. A rank calls this function before it exits with an error that rank 0 also reports: launchers end
/// all ranks at the first bad exit, and rank 0 may come to the error later.
void let_rank_zero_speak();

/// Numbers the nodes, and returns the number of each rank's node. Ranks with equal keys are on the same node. Nodes are
/// numbered in the order of their lowest ranks.
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
