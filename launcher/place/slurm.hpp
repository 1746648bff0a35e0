/// A Slurm step as described by the environment variables of a task: srun(1), OUTPUT ENVIRONMENT VARIABLES.
#pragma once

#include <string>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

/// The placement of this task, from Slurm's variables for the step.
[[nodiscard]] Placement placement_of_step(const Variables& variables);

/// The numbers of job and step as JOB.STEP, such as "7.0".
[[nodiscard]] std::string step_name(const Variables& variables);

[[nodiscard]] int step_size(const Variables& variables);

/// Ranks of the step's tasks on this node, in the order of SLURM_LOCALID; empty if SLURM_GTIDS is unset or malformed.
[[nodiscard]] std::vector<int> tasks_on_node(const Variables& variables);

/// The step's nodes, in the order of SLURM_NODEID; empty if the variables don't name each node once. Throws UsageError
/// that quotes a malformed list.
[[nodiscard]] std::vector<std::string> hosts_of_step(const Variables& variables);

/// The first node with ranks in a batch job of Slurm, PBS or LSF; empty if the variables name none.
[[nodiscard]] std::string first_host_of_allocation(const Variables& variables);

/// The address at which Slurm reaches the node, or a name that resolves to the address (NodeAddr of scontrol). Empty if
/// scontrol gives no address.
[[nodiscard]] std::string address_by_slurm(const std::string& node);

/// Number of nodes of the whole step.
[[nodiscard]] int nodes_of_step(const Variables& variables);

}  // namespace mn::launcher
