#include "place/no_launcher.hpp"

#include <algorithm>

#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/ranks.hpp>

#include "place/processes.hpp"

namespace mn::launcher {
namespace {

/// For a batch script or the shell of an allocation, without srun or mpiexec.
void reject_one_of_many_tasks(const Variables& variables) {
  if (!variables.has("SLURM_JOB_ID")) return;
  // Without a number of tasks srun starts one task on each node.
  const int tasks =
      std::max(variables.number("SLURM_NTASKS").value_or(1), variables.number("SLURM_NNODES").value_or(1));
  if (tasks < 2) return;
  throw UsageError("Slurm job " + *variables.get("SLURM_JOB_ID") + " has " + std::to_string(tasks) +
                   " tasks, but neither srun nor mpiexec started this process, which would be one rank of one; write "
                   "\"srun mnlaunch …\" (srun -n1 for one rank)");
}

/// A shell loop or Kubernetes sets RANK and WORLD_SIZE for torch.distributed; mnlaunch cannot find the ranks by them.
void reject_ranks_by_hand(const Variables& variables) {
  const auto rank = variables.get("RANK");
  const auto size = variables.get("WORLD_SIZE");
  if (!rank || !size || parse_rank(*size).value_or(1) < 2) return;
  throw UsageError("RANK is " + *rank + " and WORLD_SIZE " + *size +
                   ", but no launcher started this process, so that each rank would be a job of its own; start all "
                   "ranks with one srun or mpiexec, or unset RANK and WORLD_SIZE");
}

/// A launcher's process started this process or a script above it, but no variable names a rank any more (env -i).
void reject_lost_variables(const Variables& variables) {
  if (rank_text_of_launcher(variables.lookup()) || variables.get("SLURM_STEP_NUM_TASKS") == "1") return;
  const pid_t starter = process_of_launcher();
  if (starter == 0) return;
  throw UsageError(program_of_process(starter) +
                   " started this process, which has none of its variables for a rank, so that each would be a job "
                   "of its own; start mnlaunch with its whole environment (without env -i)");
}

}  // namespace

Placement place_alone(const Signs&, const std::optional<ServerJob>&) {
  Placement alone;
  alone.source = "no launcher";
  alone.job = "alone on " + host_name() + " " + std::to_string(getpid());
  alone.hosts = {host_name()};
  return alone;
}

void reject_torchrun(const Variables& variables) {
  if (!variables.has("TORCHELASTIC_RUN_ID")) return;
  throw UsageError(
      "torchrun started this process, so that all its workers have one rank; start mnlaunch in "
      "place of torchrun (srun mnlaunch python SCRIPT), or unset TORCHELASTIC_RUN_ID if torchrun has ended");
}

void reject_one_of_many(const Variables& variables) {
  reject_ranks_by_hand(variables);
  reject_lost_variables(variables);
  reject_one_of_many_tasks(variables);
}

}  // namespace mn::launcher
