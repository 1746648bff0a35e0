/// A Slurm step as its environment variables describe it to one task: srun(1), OUTPUT ENVIRONMENT VARIABLES.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "place/placement.hpp"

namespace mn::launcher {

/// Whether Slurm's own PMI server is the innermost one (srun --mpi=pmi2): it leaves to SLURM_* who shares the node.
[[nodiscard]] bool has_slurms_pmi_server(const Signs& signs);
[[nodiscard]] bool in_step_of_slurm(const Signs& signs);
[[nodiscard]] Placement place_in_slurm_step(const Signs& signs, const std::optional<ServerJob>&);

/// The placement of this task, as the step's lists tell it.
[[nodiscard]] Placement placement_of_step(const Variables& variables);

/// JOB.STEP: "7.0".
[[nodiscard]] std::string step_name(const Variables& variables);

[[nodiscard]] int step_size(const Variables& variables);

/// Ranks of the step's tasks on this node, as SLURM_LOCALID numbers them; empty if that is not known.
[[nodiscard]] std::vector<int> tasks_on_node(const Variables& variables);

/// The step's nodes, as SLURM_NODEID numbers them; empty if the variables don't name each of them once. Throws
/// UsageError that quotes the list if it is malformed.
[[nodiscard]] std::vector<std::string> hosts_of_step(const Variables& variables);

/// The first node with ranks of a batch job of Slurm, PBS or LSF; empty if the variables name none.
[[nodiscard]] std::string first_host_of_allocation(const Variables& variables);

/// Where Slurm itself reaches a node (NodeAddr): an address, or a name that may lead to one. Empty where it does not
/// say.
[[nodiscard]] std::string address_by_slurm(const std::string& node);

/// Number of nodes of the whole step.
[[nodiscard]] int nodes_of_step(const Variables& variables);

}  // namespace mn::launcher
