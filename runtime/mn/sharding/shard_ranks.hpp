/// Divides the ranks of a training into groups that each hold all parameters (hybrid sharding: Zhao et al. 2023,
/// PyTorch FSDP, arXiv:2304.11277, section 3.2.2).
#pragma once

#include <memory>

#include <mn/sharding/shard_options.hpp>

namespace mn {

class Communicator;

/// The rank's communicators for sharded parameters.
struct ShardRanks {
  /// The ranks of the group, dividing the parameters.
  std::shared_ptr<Communicator> group;
  /// The ranks, one of each group, with equal numbers in the groups: replicas of a share. Null if there is one group.
  std::shared_ptr<Communicator> replicas;

  /// True on the ranks of the first group, which write checkpoints.
  [[nodiscard]] bool is_first_group() const;
};

/// Collective: makes the groups of ShardOptions::group. Throws UsageError on all ranks if the ranks cannot be divided
/// into groups of equal size.
[[nodiscard]] ShardRanks make_shard_ranks(const std::shared_ptr<Communicator>& comm, const ShardOptions& options);

}  // namespace mn
