/// Launchers with a PMIx server: Open MPI's mpiexec, PRRTE, srun --mpi=pmix.
#pragma once

#include <optional>
#include <string>

#include "place/placement.hpp"

namespace mn::launcher {

[[nodiscard]] bool has_pmix_server(const Signs& signs);
[[nodiscard]] bool needs_pmix_server(const Signs& signs);
[[nodiscard]] Placement place_by_pmix(const Signs& signs, const std::optional<ServerJob>& server);

/// Whether the job is a step of srun --mpi=pmix, by its name.
[[nodiscard]] bool is_slurm_pmix(const std::string& job);

/// Whether srun started this rank, with or without PMIx.
[[nodiscard]] bool is_by_slurm(const Placement& here);

}  // namespace mn::launcher
