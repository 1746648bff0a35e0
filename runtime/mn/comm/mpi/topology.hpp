/// Who is where: each rank's number in the job and in its node, as ChainerMN defines it.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

namespace mn {

/// The nodes of a group of ranks.
struct Topology {
  int rank = 0;                    ///< this rank's number
  int size = 1;                    ///< ranks
  int intra_rank = 0;              ///< this rank's number within its node, by rank
  int intra_size = 1;              ///< ranks on this node; may differ between nodes
  int inter_rank = 0;              ///< number of this node; nodes are ordered by their lowest rank
  int inter_size = 1;              ///< nodes
  std::vector<int> nodes;          ///< [size] inter_rank of each rank
  std::vector<std::string> hosts;  ///< [size] host name of each rank

  /// Ranks of `node`, ascending.
  [[nodiscard]] std::vector<int> ranks_of(int node) const;
  /// Whether every node has the same number of ranks.
  [[nodiscard]] bool uniform() const;
};

/// This rank's numbers in a topology, under ChainerMN's names.
class PlacedRank {
 public:
  /// Which rank is on which node.
  [[nodiscard]] const Topology& topology() const noexcept { return topology_; }
  /// This rank's number, 0 to size() - 1.
  [[nodiscard]] int rank() const noexcept { return topology_.rank; }
  /// The number of ranks.
  [[nodiscard]] int size() const noexcept { return topology_.size; }
  /// This rank's number within its node.
  [[nodiscard]] int intra_rank() const noexcept { return topology_.intra_rank; }
  /// The number of ranks on this rank's node.
  [[nodiscard]] int intra_size() const noexcept { return topology_.intra_size; }
  /// The number of this rank's node.
  [[nodiscard]] int inter_rank() const noexcept { return topology_.inter_rank; }
  /// The number of nodes.
  [[nodiscard]] int inter_size() const noexcept { return topology_.inter_size; }

 protected:
  /// For what has such a place, as a communicator.
  explicit PlacedRank(Topology topology) noexcept : topology_(std::move(topology)) {}
  ~PlacedRank() = default;

 private:
  Topology topology_;
};

/// The topology that `rank` sees when rank i's node is named node_keys[i]. Pure; any launcher, any rank placement.
[[nodiscard]] Topology make_topology(int rank, std::span<const std::string> node_keys,
                                     std::span<const std::string> hosts);

/// Collective over `comm`. Two ranks share a node if their host names, their kernel and their /dev/shm are the same;
/// where MN_NODE_NAME is set on every rank, it alone decides (virtual nodes, for tests and simulations).
[[nodiscard]] Topology find_topology(MPI_Comm comm);

}  // namespace mn
