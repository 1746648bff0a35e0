/// Launchers with a PMI-1 server: mpiexec.hydra of MPICH and Intel MPI, Flux.
#pragma once

#include <optional>

#include "place/placement.hpp"

namespace mn::launcher {

[[nodiscard]] bool has_pmi_server(const Signs& signs);
[[nodiscard]] bool needs_pmi_server(const Signs& signs);
[[nodiscard]] Placement place_by_pmi(const Signs& signs, const std::optional<ServerJob>& server);

}  // namespace mn::launcher
