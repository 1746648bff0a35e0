/// The facts of one rank and of one node, put together.
#pragma once

#include <filesystem>
#include <vector>

#include "facts/facts.hpp"
#include "place/placement.hpp"

namespace mn::launcher {

/// {"size", "conflicts", "arguments", "mask", "threads", "gpus", "openable"}.
[[nodiscard]] Facts rank_facts(const Placement& here, const Surroundings& surroundings);

/// The node's hardware, and, if nodes are `compared`, everything that the checks look at. One hwloc load.
[[nodiscard]] Facts node_facts(const Surroundings& surroundings, bool compared);

/// Where to look for libpmix: beside the MPI whose mpiexec started this, then where the dynamic loader looks.
[[nodiscard]] std::vector<std::filesystem::path> pmix_libraries(const Variables& variables);

}  // namespace mn::launcher
