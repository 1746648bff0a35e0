/// Tells which rank is on which node, and each rank's numbers in the group and within the node, as ChainerMN defines
/// them.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

namespace mn {

/// The nodes of a group of ranks, as one rank sees them.
struct Topology {
  int rank = 0;                    ///< number of the rank in the group
  int size = 1;                    ///< number of ranks
  int intra_rank = 0;              ///< number of the rank within its node, in the order of ranks
  int intra_size = 1;              ///< number of ranks on the node; may differ between nodes
  int inter_rank = 0;              ///< number of the rank's node; nodes are ordered by their lowest rank
  int inter_size = 1;              ///< number of nodes
  std::vector<int> nodes;          ///< [size] inter_rank of each rank
  std::vector<std::string> hosts;  ///< [size] host name of each rank

  /// The ranks on node number `node`, ascending.
  [[nodiscard]] std::vector<int> ranks_of(int node) const;
  /// True if every node has the same number of ranks.
  [[nodiscard]] bool uniform() const;
};

/// The numbers of a rank in its topology, under the names that ChainerMN gives them.
class PlacedRank {
 public:
  /// The topology of all ranks: which rank is on which node.
  [[nodiscard]] const Topology& topology() const noexcept { return topology_; }
  /// Number of the rank, 0 to size() - 1.
  [[nodiscard]] int rank() const noexcept { return topology_.rank; }
  /// Number of ranks.
  [[nodiscard]] int size() const noexcept { return topology_.size; }
  /// Number of the rank within its node.
  [[nodiscard]] int intra_rank() const noexcept { return topology_.intra_rank; }
  /// Number of ranks on the rank's node.
  [[nodiscard]] int intra_size() const noexcept { return topology_.intra_size; }
  /// Number of the rank's node.
  [[nodiscard]] int inter_rank() const noexcept { return topology_.inter_rank; }
  /// Number of nodes.
  [[nodiscard]] int inter_size() const noexcept { return topology_.inter_size; }

 protected:
  /// Only derived classes, for example Communicator, make objects of this class.
  explicit PlacedRank(Topology topology) noexcept : topology_(std::move(topology)) {}
  ~PlacedRank() = default;

 private:
  Topology topology_;
};

/// Not collective: computes the topology as rank `rank` sees it. Ranks with equal entries of `node_keys` are on one
/// node.
[[nodiscard]] Topology make_topology(int rank, std::span<const std::string> node_keys,
                                     std::span<const std::string> hosts);

/// Collective over `comm`. Two ranks are on the same node if host name, kernel and /dev/shm are equal, whatever the
/// launcher says. If MN_NODE_NAME is set on every rank, ranks with equal names are on the same node instead (virtual
/// nodes for tests and simulations).
[[nodiscard]] Topology find_topology(MPI_Comm comm);

}  // namespace mn
