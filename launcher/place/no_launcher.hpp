/// A process that no launcher started.
#pragma once

#include <optional>

#include "place/placement.hpp"

namespace mn::launcher {

/// Rank 0 of 1.
[[nodiscard]] Placement place_alone(const Signs&, const std::optional<ServerJob>&);

/// Throws UsageError if torchrun started this process: all workers of torchrun would have one rank.
void reject_torchrun(const Variables& variables);

/// For a process without a launcher. Throws UsageError if the process must have siblings, and each would become a job
/// of one rank: in an allocation of several tasks, under a launcher whose variables are gone, or with RANK and
/// WORLD_SIZE from a shell loop or Kubernetes.
void reject_one_of_many(const Variables& variables);

}  // namespace mn::launcher
