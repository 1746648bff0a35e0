#include <mn/sharding/shard_ranks.hpp>

#include <algorithm>
#include <string>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

namespace mn {

bool ShardRanks::is_first_group() const { return !replicas || replicas->rank() == 0; }

ShardRanks make_shard_ranks(const std::shared_ptr<Communicator>& comm, const ShardOptions& options) {
  const bool is_node = options.group == ShardOptions::kNode;
  const int ranks = is_node                                    ? comm->intra_size()
                    : options.group == ShardOptions::kAllRanks ? comm->size()
                                                               : options.group;
  if (is_node && !comm->topology().uniform()) {
    throw UsageError(
        "shards cannot lie within nodes (--shard-group node): rank 0's node has " +
        std::to_string(comm->topology().ranks_of(0).size()) +
        " ranks, and another node has more or fewer; start equally many on each node, or use --shard-group "
        "N");
  }
  if (ranks < 1 || comm->size() % ranks != 0) {
    throw UsageError(std::to_string(comm->size()) + " ranks cannot be divided into groups of " + std::to_string(ranks) +
                     " (--shard-group): use a number that divides the number of ranks");
  }
  if (ranks == comm->size()) return {comm, nullptr};
  const int number = is_node ? comm->inter_rank() : comm->rank() / ranks;
  const int rank = is_node ? comm->intra_rank() : comm->rank() % ranks;
  return {comm->split(number, comm->rank()), comm->split(rank, comm->rank())};
}

}  // namespace mn
