#include "place/launchers.hpp"

#include <algorithm>

#include <mn/core/environment.hpp>

#include "place/no_launcher.hpp"
#include "place/pmi_launcher.hpp"
#include "place/pmix_launcher.hpp"
#include "place/slurm.hpp"
#include "place/variables_alone.hpp"

namespace mn::launcher {
namespace {

bool never(const Signs&) { return false; }
bool always(const Signs&) { return true; }

constexpr LauncherRow kLaunchers[] = {
    // An MPI launcher closes all descriptors of its children but its own: an open PMI_FD belongs to the innermost
    // launcher.
    {Launcher::kSlurm, has_slurms_pmi_server, never, place_in_slurm_step},
    {Launcher::kPmi, has_pmi_server, needs_pmi_server, place_by_pmi},
    {Launcher::kPmix, has_pmix_server, needs_pmix_server, place_by_pmix},
    // The rows below started this process without a server, or their server does not answer.
    {Launcher::kVariables, has_open_mpi_variables, never, place_by_variables},
    {Launcher::kVariables, has_hydra_variables, never, place_by_variables},
    {Launcher::kSlurm, in_step_of_slurm, never, place_in_slurm_step},
    {Launcher::kVariables, has_other_variables, never, place_by_variables},
    {Launcher::kNone, always, never, place_alone},
};

}  // namespace

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

}  // namespace mn::launcher
