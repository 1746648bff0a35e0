/// A process that no launcher started.
#pragma once

#include <optional>

#include "place/placement.hpp"

namespace mn::launcher {

/// Rank 0 of 1.
[[nodiscard]] Placement place_alone(const Signs&, const std::optional<ServerJob>&);

/// Throws UsageError where torchrun started this process: all its workers would have one rank.
void reject_torchrun(const Variables& variables);

/// For a process without a launcher: throws UsageError where others like it were started, each of which would be a job
/// of its own: in an allocation of several tasks, or with RANK and WORLD_SIZE from a shell loop or Kubernetes.
void reject_one_of_many(const Variables& variables);

}  // namespace mn::launcher
