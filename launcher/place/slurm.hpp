/// Describes a Slurm step by the variables of each task. Source: srun(1), OUTPUT ENVIRONMENT VARIABLES.
#pragma once

#include <string>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

/// The placement of this task in its step, from Slurm's variables.
[[nodiscard]] Placement placement_of_step(const Variables& variables);

/// The number of the job and the number of the step as a text JOB.STEP, such as "7.0".
[[nodiscard]] std::string step_name(const Variables& variables);

[[nodiscard]] int step_size(const Variables& variables);

/// The ranks of the step's tasks on this node, by SLURM_LOCALID. Empty if SLURM_GTIDS is unset or malformed.
[[nodiscard]] std::vector<int> tasks_on_node(const Variables& variables);

/// The step's nodes, by SLURM_NODEID. Empty if not each node is named once. Throws UsageError for a malformed list.
[[nodiscard]] std::vector<std::string> hosts_of_step(const Variables& variables);

/// The first node on which ranks of a batch job of Slurm, PBS or LSF run. Empty if no variable names the nodes.
[[nodiscard]] std::string first_host_of_allocation(const Variables& variables);

/// The address at which Slurm reaches the node, or a name of it (scontrol's NodeAddr). Empty if scontrol gives none.
[[nodiscard]] std::string address_by_slurm(const std::string& node);

/// The number of nodes of the step.
[[nodiscard]] int nodes_of_step(const Variables& variables);

}  // namespace mn::launcher
