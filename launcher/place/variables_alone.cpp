#include "place/variables_alone.hpp"

#include <algorithm>

#include <unistd.h>

#include <mn/core/error.hpp>

#include "place/slurm.hpp"

namespace mn::launcher {
namespace {

bool is_complete(const Variables& variables, const LauncherVariables& names) {
  return variables.has(names.rank) && variables.has(names.size) && variables.has(names.local_rank) &&
         variables.has(names.local_size);
}

/// The candidate with the most set variables, a rank among them; null if no rank is set.
const LauncherVariables* find_names(const Variables& variables, std::span<const LauncherVariables> candidates) {
  // A launcher may set another launcher's rank for compatibility (PALS sets PMI_RANK), but not all of its variables.
  const auto count = [&](const LauncherVariables& names) {
    const auto has = [&](const char* name) { return variables.has(name) ? 1 : 0; };
    return has(names.rank) * (1 + has(names.size) + has(names.local_rank) + has(names.local_size));
  };
  const auto most = std::ranges::max_element(candidates, {}, count);  // the first maximum
  return count(*most) > 0 ? &*most : nullptr;
}

bool is_one_of_one(const Variables& variables, const LauncherVariables& names) {
  return variables.get(names.size) == "1" && variables.get(names.rank) == "0" &&
         variables.get(names.local_size).value_or("1") == "1";
}

/// Two launchers with contradicting variables: the outer launcher's are stale, but nothing tells which launcher is
/// inside.
void reject_contradiction(const Placement& here, const Signs& signs) {
  if (!signs.in_slurm_step) return;
  const int rank = signs.variables.needed("SLURM_PROCID", "Slurm");
  const int size = step_size(signs.variables);
  if (rank == here.rank && size == here.size) return;
  throw UsageError("variables of " + here.source + " say rank " + std::to_string(here.rank) + " of " +
                   std::to_string(here.size) + ", those of Slurm step " + step_name(signs.variables) + " rank " +
                   std::to_string(rank) + " of " + std::to_string(size) +
                   ", and no server answers for either: start mnlaunch directly under srun --mpi=pmix or mpiexec, " +
                   "without the other's variables (unset them before sbatch or srun)");
}

/// For a launcher without a name for the job: a text unique among users and allocations.
std::string name_of_job(const Variables& variables, const LauncherVariables& names) {
  std::string name = std::string("ranks by ") + names.launcher + " of user " + std::to_string(getuid());
  for (const char* batch : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID"}) {
    if (const auto job = variables.get(batch)) name += ", " + *job;
  }
  return name;
}

}  // namespace

bool has_open_mpi_variables(const Signs& signs) { return signs.variables.has("OMPI_COMM_WORLD_RANK"); }

bool has_hydra_variables(const Signs& signs) { return signs.is_hydra && signs.variables.has("PMI_PORT"); }

bool has_other_variables(const Signs& signs) {
  const LauncherVariables* names = find_names(signs.variables, kLauncherVariables);
  return names != nullptr && !is_one_of_one(signs.variables, *names);
}

Placement place_by_variables(const Signs& signs, const std::optional<ServerJob>&) {
  Placement here = place_by_names(signs.variables, kLauncherVariables);
  here.launcher = Launcher::kVariables;
  reject_contradiction(here, signs);
  return here;
}

Placement place_by_names(const Variables& variables, std::span<const LauncherVariables> candidates) {
  const LauncherVariables* names = find_names(variables, candidates);
  if (names == nullptr) names = &kPmiVariables.front();
  Placement here;
  here.source = names->launcher;
  here.rank = number_or_error(here, variables, names->rank);
  here.size = number_or_error(here, variables, names->size);
  here.job = variables.has(names->job) ? *variables.get(names->job) : name_of_job(variables, *names);
  if (is_one_of_one(variables, *names)) return here;
  if (!variables.has(names->local_rank) && !variables.has(names->local_size)) {
    if (here.rank >= here.size) return here;  // the rank alone is wrong
    throw NoLocalRanks(here.source + " does not tell which ranks share a node; set " + names->local_rank + " and " +
                       names->local_size + " on each rank, or start mnlaunch under srun or mpiexec");
  }
  here.intra_rank = number_or_error(here, variables, names->local_rank);
  here.intra_size = number_or_error(here, variables, names->local_size);
  if (here.intra_size < here.size) here.inter_size = kNotKnown;  // the variables describe this rank's node only
  return here;
}

bool describe_one_node(const Variables& variables, const LauncherVariables& names) {
  return is_complete(variables, names) && variables.get(names.size) == variables.get(names.local_size);
}

}  // namespace mn::launcher
