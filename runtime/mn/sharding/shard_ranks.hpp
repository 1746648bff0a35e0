/// Divides the ranks of a training into groups that each hold all parameters (hybrid sharding: Zhao et al. 2023, PyTorch
/// FSDP, arXiv:2304.11277, section 3.2.2).
#pragma once

#include <memory>

#include <mn/sharding/shard_options.hpp>

namespace mn {

class Communicator;

/// The rank's communicators for sharded parameters.
struct ShardRanks {
  /// The ranks of the group, which divide the parameters among themselves.
  std::shared_ptr<Communicator> group;
  /// The ranks that have the same number in their groups. They hold equal shares. Null if there is one group.
  std::shared_ptr<Communicator> replicas;

  /// True on the ranks of the first group, which write checkpoints.
  [[nodiscard]] bool is_first_group() const;
};

/// Collective: makes the groups of ShardOptions::group. Throws UsageError on all ranks if the ranks cannot be divided
/// into groups of equal size.
[[nodiscard]] ShardRanks make_shard_ranks(const std::shared_ptr<Communicator>& comm, const ShardOptions& options);

}  // namespace mn
