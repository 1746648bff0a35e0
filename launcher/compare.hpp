/// The comparison of all nodes, where a PMIx server connects the ranks.
#pragma once

#include "place/pmix.hpp"
#include "this_rank.hpp"

namespace mn::launcher {

/// Collective over all ranks. `rank` has a layout.
[[nodiscard]] Outcome compare_nodes(PmixSession& session, const ThisRank& rank);

}  // namespace mn::launcher
