/// Describes a Slurm step by the variables of each task. Source: srun(1), OUTPUT ENVIRONMENT VARIABLES.
#pragma once

#include <string>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

[[nodiscard]] Placement placement_of_step(const Variables& variables);

/// JOB.STEP, such as "7.0".
[[nodiscard]] std::string step_name(const Variables& variables);

[[nodiscard]] int step_size(const Variables& variables);

/// The ranks on this node, by SLURM_LOCALID. Empty if SLURM_GTIDS is unset or malformed.
[[nodiscard]] std::vector<int> tasks_on_node(const Variables& variables);

/// The step's nodes, by SLURM_NODEID. Empty if not each node is named once. Throws UsageError for a malformed list.
[[nodiscard]] std::vector<std::string> hosts_of_step(const Variables& variables);

/// The first node with ranks of a batch job of Slurm, PBS or LSF. Empty if no variable names the nodes.
[[nodiscard]] std::string first_host_of_allocation(const Variables& variables);

/// The node's address or another name, by which Slurm reaches it (scontrol's NodeAddr). Empty if scontrol gives none.
[[nodiscard]] std::string address_by_slurm(const std::string& node);

[[nodiscard]] int nodes_of_step(const Variables& variables);

}  // namespace mn::launcher
