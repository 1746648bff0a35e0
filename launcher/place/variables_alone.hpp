/// Launchers that only set variables (MVAPICH2, JSM, PALS), and others whose server cannot be reached: the table of
/// their names is kLauncherVariables of mn/core/ranks.hpp.
#pragma once

#include <optional>
#include <span>

#include <mn/core/error.hpp>
#include <mn/core/ranks.hpp>

#include "place/placement.hpp"

namespace mn::launcher {

/// The launcher leaves open, on every rank, which of them share a node.
class NoLocalRanks : public UsageError {
 public:
  using UsageError::UsageError;
};

[[nodiscard]] bool has_open_mpi_variables(const Signs& signs);
[[nodiscard]] bool has_hydra_variables(const Signs& signs);
/// Variables of any launcher of more than one rank.
[[nodiscard]] bool has_other_variables(const Signs& signs);

/// The ranks of this node alone, unless it is the only one: inter_size is kNotKnown then. Throws UsageError, also where
/// a Slurm step around says another rank.
[[nodiscard]] Placement place_by_variables(const Signs& signs, const std::optional<ServerJob>&);

/// The placement by the first of `candidates` whose variables are all set.
[[nodiscard]] Placement place_by_names(const Variables& variables, std::span<const LauncherVariables> candidates);

/// Whether the names are all set, and tell that all ranks are on this node.
[[nodiscard]] bool describe_one_node(const Variables& variables, const LauncherVariables& names);

}  // namespace mn::launcher
