#include "place/placement.hpp"

#include <algorithm>
#include <cassert>

#include <mn/core/launcher_variables.hpp>

namespace mn::launcher {

Signs read_signs(const Variables& variables, const std::function<bool(int)>& is_socket) {
  const auto pmi_fd = variables.number("PMI_FD");
  return {.variables = variables,
          .in_slurm_step = in_slurm_step(variables.lookup()),
          .is_hydra = variables.has("MPI_LOCALNRANKS"),
          .is_flux = variables.has("FLUX_TASK_RANK"),
          .has_live_pmi = variables.has("PMI_RANK") && pmi_fd && is_socket(*pmi_fd)};
}

void note_conflict(Placement& here, const Variables& variables, const std::string& name, int value,
                   const std::string& meaning) {
  const auto other = variables.get(name);
  if (!other || *other == std::to_string(value)) return;
  here.conflicts.push_back(here.source + " says " + meaning + " " + std::to_string(value) + ", but " + name + " is " +
                           *other);
}

void take_layout(Placement& here, const Layout& layout) {
  here.size = layout.size();
  here.inter_rank = layout.node_of(here.rank);
  here.inter_size = layout.node_count();
  const auto here_too = layout.ranks_of(here.inter_rank);
  here.intra_size = static_cast<int>(here_too.size());
  const auto me = std::find(here_too.begin(), here_too.end(), here.rank);
  assert(me != here_too.end());
  here.intra_rank = static_cast<int>(me - here_too.begin());
  here.hosts = layout.hosts;
}

int number_or_error(Placement& here, const Variables& variables, const std::string& name) {
  try {
    return variables.needed(name, here.source);
  } catch (const UsageError& error) {
    here.error = error.what();
    return kNobody;
  }
}

void check_ranges(Placement& here) {
  const auto in = [](int value, int size) { return value >= 0 && value < size; };
  const bool is_on_node = here.inter_size == kNotKnown || in(here.inter_rank, here.inter_size);
  const bool fits = here.intra_size <= here.size;
  // Rank 0 must be the first rank on its node.
  const bool has_position = in(here.intra_rank, here.intra_size) && (here.rank != 0 || here.intra_rank == 0);
  const std::string what = here.source + " says rank " + std::to_string(here.rank) + " of " +
                           std::to_string(here.size) + ", local rank " + std::to_string(here.intra_rank) + " of " +
                           std::to_string(here.intra_size) + ", node " + std::to_string(here.inter_rank) + " of " +
                           std::to_string(here.inter_size) +
                           ": its variables were changed on the way; start mnlaunch directly under it";
  if (!is_on_node) throw UsageError(what);
  if (here.error.empty() && !(in(here.rank, here.size) && has_position && fits)) here.error = what;
  if (!has_position) here.intra_rank = kNobody;
}

std::vector<int> Layout::ranks_of(int node) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (node_of(rank) == node) ranks.push_back(rank);
  }
  return ranks;
}

Layout make_layout(std::span<const int> ids, std::span<const std::string> names) {
  Layout layout{number_nodes(ids), {}};
  for (std::size_t rank = 0; rank < ids.size(); ++rank) {
    if (layout.nodes[rank] == layout.node_count()) layout.hosts.push_back(names[rank]);
  }
  return layout;
}

}  // namespace mn::launcher
