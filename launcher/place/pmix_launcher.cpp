#include "place/pmix_launcher.hpp"

#include <mn/core/error.hpp>

#include "place/slurm.hpp"
#include "place/variables_alone.hpp"

namespace mn::launcher {
namespace {

constexpr const char* kSlurmPmix = "slurm.pmix.";

/// Whether the namespace belongs to the Slurm step of these variables, which then describe the namespace completely.
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

/// The placement that the PMIx server would give, from the variables of the launcher that owns the server.
Placement place_by_its_variables(const Signs& signs) {
  const Variables& variables = signs.variables;
  Placement here = is_own_step(signs) ? placement_of_step(variables) : place_by_names(variables, kLauncherVariables);
  here.job = variables.get("PMIX_NAMESPACE").value_or(here.job);
  here.rank = number_or_error(here, variables, "PMIX_RANK");
  return here;
}

}  // namespace

bool is_slurm_pmix(const std::string& job) { return job.starts_with(kSlurmPmix); }

bool is_by_slurm(const Placement& here) { return here.launcher == Launcher::kSlurm || is_slurm_pmix(here.job); }

bool has_pmix_server(const Signs& signs) {
  return signs.variables.has("PMIX_NAMESPACE") && signs.variables.has("PMIX_RANK");
}

bool needs_pmix_server(const Signs& signs) {
  if (is_own_step(signs)) return nodes_of_step(signs.variables) > 1 && hosts_of_step(signs.variables).empty();
  // In a Slurm step, only the server tells whether the variables are older than the step.
  return signs.in_slurm_step || !describe_one_node(signs.variables, kLauncherVariables[0]);
}

Placement place_by_pmix(const Signs& signs, const std::optional<ServerJob>& server) {
  Placement here = server ? place_by_server(*server) : place_by_its_variables(signs);
  here.launcher = Launcher::kPmix;
  here.source = "PMIx " + here.job;
  note_conflicts_with_pmix(here, signs.variables);
  return here;
}

}  // namespace mn::launcher
