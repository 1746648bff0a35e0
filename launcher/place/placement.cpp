#include "place/placement.hpp"

#include <algorithm>
#include <span>

#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/ranks.hpp>

#include "place/layout.hpp"
#include "place/slurm.hpp"

namespace mn::launcher {
namespace {

constexpr const char* kSlurmPmix = "slurm.pmix.";

bool is_complete(const Variables& variables, const LauncherVariables& names) {
  return variables.has(names.rank) && variables.has(names.size) && variables.has(names.local_rank) &&
         variables.has(names.local_size);
}

/// The names that are all set, else the first of which there is a rank; null if there are none.
const LauncherVariables* find_names(const Variables& variables, std::span<const LauncherVariables> candidates) {
  const LauncherVariables* found = nullptr;
  for (const auto& names : candidates) {
    if (!variables.has(names.rank)) continue;
    if (is_complete(variables, names)) return &names;
    if (found == nullptr) found = &names;
  }
  return found;
}

void note_conflict(Placement& here, const Variables& variables, const std::string& name, int value,
                   const std::string& meaning) {
  const auto other = variables.number(name);
  if (!other || *other == value) return;
  here.conflicts.push_back(here.source + " says " + meaning + " " + std::to_string(value) + ", but " + name + " is " +
                           std::to_string(*other));
}

void take_layout(Placement& here, const Layout& layout) {
  here.size = layout.size();
  here.inter_rank = layout.node_of(here.rank);
  here.inter_size = layout.node_count();
  const auto here_too = layout.ranks_of(here.inter_rank);
  here.intra_size = static_cast<int>(here_too.size());
  const auto me = std::find(here_too.begin(), here_too.end(), here.rank);
  here.intra_rank = static_cast<int>(me - here_too.begin());
  here.hosts = layout.hosts;
}

bool is_hydra(const Variables& variables) { return variables.has("MPI_LOCALNRANKS"); }

/// Whether the namespace is that of the Slurm step whose variables these are: they describe it whole.
bool is_own_step(const Variables& variables) {
  return in_slurm_step(variables.lookup()) &&
         variables.get("PMIX_NAMESPACE") == std::optional(kSlurmPmix + step_name(variables));
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

Placement placement_of_pmix_server(const Variables& variables, const ServerJob& job) {
  if (job.rank < 0 || job.rank >= static_cast<int>(job.node_ids.size()) || job.hosts.size() != job.node_ids.size()) {
    throw UsageError("the PMIx server of " + job.name_space + " gives rank " + std::to_string(job.rank) + " of " +
                     std::to_string(job.node_ids.size()) + ": its job is not described");
  }
  Placement here;
  here.launcher = Launcher::kPmix;
  here.rank = job.rank;
  here.job = job.name_space;
  here.source = "PMIx " + job.name_space;
  take_layout(here, make_layout(job.node_ids, job.hosts));
  note_conflicts_with_pmix(here, variables);
  return here;
}

/// Where two launchers contradict each other, one encloses the other, and their variables do not tell which.
void reject_contradiction(const Placement& here, const Variables& variables) {
  if (!in_slurm_step(variables.lookup())) return;
  const int rank = variables.needed("SLURM_PROCID", "Slurm");
  const int size = step_size(variables);
  if (rank == here.rank && size == here.size) return;
  throw UsageError("variables of " + here.source + " say rank " + std::to_string(here.rank) + " of " +
                   std::to_string(here.size) + ", those of Slurm step " + step_name(variables) + " rank " +
                   std::to_string(rank) + " of " + std::to_string(size) +
                   ", and no server answers for either: start mnlaunch directly under srun --mpi=pmix or mpiexec, " +
                   "without the other's variables (unset them before sbatch or srun)");
}

/// Where the launcher has no name for the job: what tells it from jobs of other users, and of other allocations.
std::string name_of_job(const Variables& variables, const std::string& launcher) {
  std::string name = launcher + " of user " + std::to_string(getuid());
  for (const char* batch : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID"}) {
    if (const auto job = variables.get(batch)) name += ", " + *job;
  }
  return name;
}

Placement placement_of_variables(const Variables& variables, Launcher launcher) {
  const LauncherVariables* names =
      find_names(variables, launcher == Launcher::kPmi ? kPmiVariables : std::span(kLauncherVariables));
  if (names == nullptr) names = &kPmiVariables.front();
  Placement here;
  here.launcher = launcher;
  here.source = names->launcher;
  here.rank = variables.needed(names->rank, here.source);
  here.size = variables.needed(names->size, here.source);
  here.job = variables.get(names->job).value_or(name_of_job(variables, here.source));
  if (launcher == Launcher::kVariables) reject_contradiction(here, variables);
  if (here.size == 1) return here;
  here.intra_rank = variables.needed(names->local_rank, here.source);
  here.intra_size = variables.needed(names->local_size, here.source);
  if (here.intra_size < here.size) here.inter_size = kNotKnown;  // it describes this rank's node only
  return here;
}

Placement placement_of_pmi(const Variables& variables, const std::optional<ServerJob>& server) {
  if (!server) return placement_of_variables(variables, Launcher::kPmi);
  Placement here;
  here.launcher = Launcher::kPmi;
  here.source = variables.has("FLUX_TASK_RANK") ? "Flux (PMI)" : "Hydra (PMI)";
  here.rank = server->rank;
  here.job = server->name_space;
  take_layout(here, make_layout(server->node_ids, server->hosts));
  note_conflict(here, variables, "MPI_LOCALRANKID", here.intra_rank, "local rank");
  note_conflict(here, variables, "MPI_LOCALNRANKS", here.intra_size, "local size");
  return here;
}

Placement placement_of_slurm(const Variables& variables) {
  Placement here;
  here.launcher = Launcher::kSlurm;
  here.job = step_name(variables);
  here.source = "Slurm step " + here.job;
  here.hosts = hosts_of_step(variables);
  here.size = step_size(variables);
  here.intra_rank = variables.needed("SLURM_LOCALID", here.source);
  const auto tasks = tasks_on_node(variables);
  const auto local = static_cast<std::size_t>(std::max(here.intra_rank, 0));
  const int rank = variables.needed("SLURM_PROCID", here.source);
  // A variable of one number is more easily left over from another step than a list.
  here.rank = local < tasks.size() ? tasks[local] : rank;
  here.intra_size = std::max(static_cast<int>(tasks.size()), 1);
  here.inter_rank = variables.needed("SLURM_NODEID", here.source);
  here.inter_size = nodes_of_step(variables);
  return here;
}

/// What PMIx would say, from the variables of the launcher whose server it is.
Placement placement_of_pmix(const Variables& variables) {
  const bool by_slurm = is_own_step(variables);
  Placement here = by_slurm ? placement_of_slurm(variables) : placement_of_variables(variables, Launcher::kPmix);
  here.launcher = Launcher::kPmix;
  here.job = variables.get("PMIX_NAMESPACE").value_or(here.job);
  here.source = "PMIx " + here.job;
  here.rank = variables.needed("PMIX_RANK", here.source);
  note_conflicts_with_pmix(here, variables);
  return here;
}

void check_ranges(const Placement& here) {
  const auto in = [](int value, int size) { return value >= 0 && value < size; };
  const bool is_on_node = here.inter_size == kNotKnown || in(here.inter_rank, here.inter_size);
  if (in(here.rank, here.size) && in(here.intra_rank, here.intra_size) && is_on_node) return;
  throw UsageError(here.source + " says rank " + std::to_string(here.rank) + " of " + std::to_string(here.size) +
                   ", local rank " + std::to_string(here.intra_rank) + " of " + std::to_string(here.intra_size) +
                   ", node " + std::to_string(here.inter_rank) + " of " + std::to_string(here.inter_size) +
                   ": its variables were changed on the way; start mnlaunch directly under it");
}

Placement unchecked_placement(const Variables& variables, Launcher launcher, const std::optional<ServerJob>& server) {
  switch (launcher) {
    case Launcher::kPmix:
      return server ? placement_of_pmix_server(variables, *server) : placement_of_pmix(variables);
    case Launcher::kPmi:
      return placement_of_pmi(variables, server);
    case Launcher::kVariables:
      return placement_of_variables(variables, launcher);
    case Launcher::kSlurm: {
      Placement here = placement_of_slurm(variables);
      note_conflict(here, variables, "SLURM_PROCID", here.rank, "rank");
      note_conflict(here, variables, "PMI_RANK", here.rank, "rank");
      return here;
    }
    case Launcher::kNone:
      break;
  }
  Placement alone;
  alone.source = "no launcher";
  alone.job = "alone on " + host_name() + " " + std::to_string(getpid());
  alone.hosts = {host_name()};
  return alone;
}

}  // namespace

bool is_slurm_pmix(const std::string& job) { return job.starts_with(kSlurmPmix); }

bool needs_server(const Variables& variables, Launcher launcher) {
  const auto is_one_node = [&](const LauncherVariables& names) {
    return is_complete(variables, names) && variables.number(names.size) == variables.number(names.local_size);
  };
  // In a Slurm step, only the server tells whether the variables are older than the step.
  if (launcher == Launcher::kPmi) return !is_hydra(variables) || !is_one_node(kPmiVariables.front());
  if (is_own_step(variables)) return nodes_of_step(variables) > 1 && hosts_of_step(variables).empty();
  return in_slurm_step(variables.lookup()) || !is_one_node(kLauncherVariables[0]);
}

Launcher innermost_launcher(const Variables& variables, const std::function<bool(int)>& is_socket) {
  const auto pmi_fd = variables.number("PMI_FD");
  // An MPI launcher closes its children's other descriptors: an open PMI_FD means that nothing came after it.
  const bool live_pmi = variables.has("PMI_RANK") && pmi_fd && is_socket(*pmi_fd);
  // Slurm's own PMI server leaves to SLURM_* who shares the node.
  const bool is_slurms = in_slurm_step(variables.lookup()) && !is_hydra(variables) && !variables.has("FLUX_TASK_RANK");
  if (live_pmi) return is_slurms ? Launcher::kSlurm : Launcher::kPmi;
  if (variables.has("PMIX_NAMESPACE") && variables.has("PMIX_RANK")) return Launcher::kPmix;
  return launcher_without_server(variables);
}

Launcher launcher_without_server(const Variables& variables) {
  if (variables.has("OMPI_COMM_WORLD_RANK")) return Launcher::kVariables;
  if (is_hydra(variables) && variables.has("PMI_PORT")) return Launcher::kVariables;
  if (in_slurm_step(variables.lookup())) return Launcher::kSlurm;
  const LauncherVariables* names = find_names(variables, kLauncherVariables);
  return names != nullptr && variables.number(names->size) != 1 ? Launcher::kVariables : Launcher::kNone;
}

Placement find_placement(const Variables& variables, Launcher launcher, const std::optional<ServerJob>& server) {
  Placement here = unchecked_placement(variables, launcher, server);
  if (here.inter_size == 1 && here.hosts.empty()) here.hosts = {host_name()};
  check_ranges(here);
  return here;
}

}  // namespace mn::launcher
