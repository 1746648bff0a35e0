#include "place/pmi_launcher.hpp"

#include "place/variables_alone.hpp"

namespace mn::launcher {

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

}  // namespace mn::launcher
