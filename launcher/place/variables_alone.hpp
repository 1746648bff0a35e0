/// Launchers that only set variables (MVAPICH2, JSM, PALS), and launchers without a reachable server.
/// kLauncherVariables of mn/core/ranks.hpp is the table of their names.
#pragma once

#include <optional>
#include <span>

#include <mn/core/error.hpp>
#include <mn/core/ranks.hpp>

#include "place/placement.hpp"

namespace mn::launcher {

/// On no rank do the variables tell which ranks share a node.
class NoLocalRanks : public UsageError {
 public:
  using UsageError::UsageError;
};

[[nodiscard]] bool has_open_mpi_variables(const Signs& signs);
[[nodiscard]] bool has_hydra_variables(const Signs& signs);
/// Variables of any launcher with more than one rank.
[[nodiscard]] bool has_other_variables(const Signs& signs);

/// The placement by variables. If they describe a single node of several, inter_size is kNotKnown. Throws UsageError,
/// also if an enclosing Slurm step gives a different rank.
[[nodiscard]] Placement place_by_variables(const Signs& signs, const std::optional<ServerJob>&);

/// The placement by the candidate with the most set variables.
[[nodiscard]] Placement place_by_names(const Variables& variables, std::span<const LauncherVariables> candidates);

/// Whether the variables are all set and put all ranks on this node.
[[nodiscard]] bool describe_one_node(const Variables& variables, const LauncherVariables& names);

}  // namespace mn::launcher
