#include "place/derive_rank.hpp"

#include <algorithm>

#include <unistd.h>

#include <mn/core/environment.hpp>

#include "place/processes.hpp"
#include "place/slurm.hpp"

namespace mn::launcher {
namespace {

// Placement by environment variables alone.

/// Chooses the launcher with the most variables among those whose rank variable is set; null if there is none.
const LauncherVariables* find_names(const Variables& variables, std::span<const LauncherVariables> candidates) {
  // A launcher may set another launcher's rank variable (PALS sets PMI_RANK), but not all variables.
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

/// Throws UsageError if Slurm's rank or size differs from `here`, the placement by another launcher. One of the two is
/// stale, but nothing tells which one.
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

/// Makes a name for a job without a name. It differs between users and between allocations.
std::string name_of_job(const Variables& variables, const LauncherVariables& names) {
  std::string name = std::string("ranks by ") + names.launcher + " of user " + std::to_string(getuid());
  for (const char* batch : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID"}) {
    if (const auto job = variables.get(batch)) name += ", " + *job;
  }
  return name;
}

/// Returns the placement by the variables of one of `candidates`. These variables describe this node only, so
/// inter_size becomes kNotKnown if the job has more ranks than the node.
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
    if (here.rank >= here.size) return here;  // the rank's number is wrong: that error is reported
    throw NoLocalRanks(here.source + " does not tell which ranks share a node; set " + names->local_rank + " and " +
                       names->local_size + " on each rank, or start mnlaunch under srun or mpiexec");
  }
  here.intra_rank = number_or_error(here, variables, names->local_rank);
  here.intra_size = number_or_error(here, variables, names->local_size);
  if (here.intra_size < here.size) here.inter_size = kNotKnown;
  return here;
}

bool describe_one_node(const Variables& variables, const LauncherVariables& names) {
  return variables.has(names.rank) && variables.has(names.local_rank) && variables.has(names.size) &&
         variables.get(names.size) == variables.get(names.local_size);
}

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

// Placement by a PMI-1 server.

bool has_pmi_server(const Signs& signs) { return signs.has_live_pmi; }

bool needs_pmi_server(const Signs& signs) {
  return !signs.is_hydra || !describe_one_node(signs.variables, kPmiVariables.front());
}

Placement place_by_pmi(const Signs& signs, const std::optional<ServerJob>& server) {
  Placement here = server ? Placement{} : place_by_names(signs.variables, kPmiVariables);
  here.launcher = Launcher::kPmi;
  if (!server) return here;
  here.source = signs.is_flux ? "Flux (PMI)" : "Hydra (PMI)";
  here.rank = server->rank;
  here.job = server->name_space;
  take_layout(here, make_layout(server->node_ids, server->hosts));
  note_conflict(here, signs.variables, "MPI_LOCALRANKID", here.intra_rank, "local rank");
  note_conflict(here, signs.variables, "MPI_LOCALNRANKS", here.intra_size, "local size");
  return here;
}

// Placement by a PMIx server.

constexpr const char* kSlurmPmix = "slurm.pmix.";

/// Whether Slurm's variables describe all ranks of the PMIx namespace.
bool is_own_step(const Signs& signs) {
  return signs.in_slurm_step &&
         signs.variables.get("PMIX_NAMESPACE") == std::optional(kSlurmPmix + step_name(signs.variables));
}

void note_conflicts_with_pmix(Placement& here, const Variables& variables) {
  note_conflict(here, variables, "PMIX_RANK", here.rank, "rank");
  if (!is_slurm_pmix(here.job)) {
    note_conflict(here, variables, "OMPI_COMM_WORLD_RANK", here.rank, "rank");
    note_conflict(here, variables, "OMPI_COMM_WORLD_SIZE", here.size, "size");
    return;
  }
  const std::string step = here.job.substr(std::string(kSlurmPmix).size());
  if (step_name(variables) != step) {
    here.conflicts.push_back(here.source + " is step " + step + ", but SLURM_JOB_ID.SLURM_STEP_ID is " +
                             step_name(variables));
  }
  note_conflict(here, variables, "SLURM_PROCID", here.rank, "rank");
}

Placement place_by_server(const ServerJob& job) {
  if (job.rank < 0 || job.rank >= static_cast<int>(job.node_ids.size()) || job.hosts.size() != job.node_ids.size()) {
    throw UsageError("the PMIx server of " + job.name_space + " gives rank " + std::to_string(job.rank) + " of " +
                     std::to_string(job.node_ids.size()) + ": its job is not described");
  }
  Placement here;
  here.rank = job.rank;
  here.job = job.name_space;
  take_layout(here, make_layout(job.node_ids, job.hosts));
  return here;
}

/// Returns the placement by the variables of the PMIx server's launcher.
Placement place_by_its_variables(const Signs& signs) {
  const Variables& variables = signs.variables;
  Placement here = is_own_step(signs) ? placement_of_step(variables) : place_by_names(variables, kLauncherVariables);
  here.job = variables.get("PMIX_NAMESPACE").value_or(here.job);
  here.rank = number_or_error(here, variables, "PMIX_RANK");
  return here;
}

bool has_pmix_server(const Signs& signs) {
  return signs.variables.has("PMIX_NAMESPACE") && signs.variables.has("PMIX_RANK");
}

bool needs_pmix_server(const Signs& signs) {
  if (is_own_step(signs)) return nodes_of_step(signs.variables) > 1 && hosts_of_step(signs.variables).empty();
  // In a Slurm step, Open MPI's variables may be left over from before the step.
  return signs.in_slurm_step || !describe_one_node(signs.variables, kLauncherVariables[0]);
}

Placement place_by_pmix(const Signs& signs, const std::optional<ServerJob>& server) {
  Placement here = server ? place_by_server(*server) : place_by_its_variables(signs);
  here.launcher = Launcher::kPmix;
  here.source = "PMIx " + here.job;
  note_conflicts_with_pmix(here, signs.variables);
  return here;
}

// Placement by the variables of a Slurm step.

/// Whether the innermost launcher is Slurm with its own PMI server, as with srun --mpi=pmi2.
bool has_slurms_pmi_server(const Signs& signs) {
  return signs.has_live_pmi && signs.in_slurm_step && !signs.is_hydra && !signs.is_flux;
}

bool in_step_of_slurm(const Signs& signs) { return signs.in_slurm_step; }

Placement place_in_slurm_step(const Signs& signs, const std::optional<ServerJob>&) {
  Placement here = placement_of_step(signs.variables);
  note_conflict(here, signs.variables, "SLURM_PROCID", here.rank, "rank");
  note_conflict(here, signs.variables, "PMI_RANK", here.rank, "rank");
  return here;
}

Placement place_alone(const Signs&, const std::optional<ServerJob>&) {
  Placement alone;
  alone.source = "no launcher";
  alone.job = "alone on " + host_name() + " " + std::to_string(getpid());
  alone.hosts = {host_name()};
  return alone;
}

/// Throws UsageError if this process runs in a Slurm allocation of several tasks, but in its batch script or a shell.
void reject_one_of_many_tasks(const Variables& variables) {
  if (!variables.has("SLURM_JOB_ID")) return;
  // Without a number of tasks, srun would start one task on each node.
  const int tasks =
      std::max(variables.number("SLURM_NTASKS").value_or(1), variables.number("SLURM_NNODES").value_or(1));
  if (tasks < 2) return;
  throw UsageError("Slurm job " + *variables.get("SLURM_JOB_ID") + " has " + std::to_string(tasks) +
                   " tasks, but neither srun nor mpiexec started this process, which would be one rank of one; write "
                   "\"srun mnlaunch …\" (srun -n1 for one rank)");
}

/// Throws UsageError if RANK and WORLD_SIZE are set for several ranks, as by a shell loop or Kubernetes for torch.
void reject_ranks_by_hand(const Variables& variables) {
  const auto rank = variables.get("RANK");
  const auto size = variables.get("WORLD_SIZE");
  if (!rank || !size || parse_rank(*size).value_or(1) < 2) return;
  throw UsageError("RANK is " + *rank + " and WORLD_SIZE " + *size +
                   ", but no launcher started this process, so that each rank would be a job of its own; start all "
                   "ranks with one srun or mpiexec, or unset RANK and WORLD_SIZE");
}

/// Throws UsageError if a launcher is an ancestor, but its variables are unset, as after env -i.
void reject_lost_variables(const Variables& variables) {
  if (rank_text_of_launcher(variables.lookup()) || variables.get("SLURM_STEP_NUM_TASKS") == "1") return;
  const pid_t starter = process_of_launcher();
  if (starter == 0) return;
  throw UsageError(program_of_process(starter) +
                   " started this process, which has none of its variables for a rank, so that each would be a job "
                   "of its own; start mnlaunch with its whole environment (without env -i)");
}

bool never(const Signs&) { return false; }
bool always(const Signs&) { return true; }

constexpr LauncherRow kLaunchers[] = {
    // An MPI launcher closes all descriptors in its children except its own PMI socket. So if PMI_FD is an open socket,
    // it belongs to the innermost launcher.
    {Launcher::kSlurm, has_slurms_pmi_server, never, place_in_slurm_step},
    {Launcher::kPmi, has_pmi_server, needs_pmi_server, place_by_pmi},
    {Launcher::kPmix, has_pmix_server, needs_pmix_server, place_by_pmix},
    // The launchers below have no server, or a server that does not answer.
    {Launcher::kVariables, has_open_mpi_variables, never, place_by_variables},
    {Launcher::kVariables, has_hydra_variables, never, place_by_variables},
    {Launcher::kSlurm, in_step_of_slurm, never, place_in_slurm_step},
    {Launcher::kVariables, has_other_variables, never, place_by_variables},
    {Launcher::kNone, always, never, place_alone},
};

}  // namespace

bool is_slurm_pmix(const std::string& job) { return job.starts_with(kSlurmPmix); }

bool is_by_slurm(const Placement& here) { return here.launcher == Launcher::kSlurm || is_slurm_pmix(here.job); }

std::span<const LauncherRow> launchers() { return kLaunchers; }

const LauncherRow& innermost_launcher(const Signs& signs) {
  return *std::ranges::find_if(kLaunchers, [&](const LauncherRow& row) { return row.started(signs); });
}

const LauncherRow& launcher_without_server(const Signs& signs) {
  const auto* pmix = std::ranges::find(kLaunchers, Launcher::kPmix, &LauncherRow::launcher);
  return *std::find_if(pmix + 1, std::end(kLaunchers), [&](const LauncherRow& row) { return row.started(signs); });
}

Placement find_placement(const LauncherRow& row, const Signs& signs, const std::optional<ServerJob>& server) {
  Placement here = row.place(signs, server);
  if (here.inter_size == 1 && here.hosts.empty()) here.hosts = {host_name()};
  check_ranges(here);
  return here;
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
