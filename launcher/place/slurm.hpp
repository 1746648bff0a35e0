/// The layout of a Slurm step from its environment variables, for steps without a PMIx server.
/// Variables: srun(1), OUTPUT ENVIRONMENT VARIABLES. Distributions: srun(1), --distribution.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "place/layout.hpp"
#include "place/variables.hpp"

namespace mn::launcher {

/// The hosts of SLURM_JOB_NODELIST and the like. Throws UsageError that quotes the text if it is malformed.
[[nodiscard]] std::vector<std::string> hosts_of_list(const std::string& list);

/// "2(x3),1" → 2, 2, 2, 1. Throws UsageError that quotes the text if it is malformed.
[[nodiscard]] std::vector<int> expand_task_counts(std::string_view counts);

/// The number of the node of each rank, when `tasks[n]` ranks are on node n. `distribution` is block, cyclic or plane,
/// as srun spells it (plane=2 with `plane_size`); no value for any other.
[[nodiscard]] std::optional<std::vector<int>> distribute(const std::string& distribution, int plane_size,
                                                         const std::vector<int>& tasks);

/// The layout of the whole step; no value if the variables do not determine it. It agrees with SLURM_PROCID and
/// SLURM_GTIDS of this process.
[[nodiscard]] std::optional<Layout> slurm_layout(const Variables& variables);

}  // namespace mn::launcher
