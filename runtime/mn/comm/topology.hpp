/// Who is where: each rank's place in the job and in its node, as ChainerMN defines it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <mpi.h>

namespace mn {

struct Topology {
  int rank = 0;
  int size = 1;
  int intra_rank = 0;              ///< position among the ranks of this node, by rank
  int intra_size = 1;              ///< ranks on this node; may differ between nodes
  int inter_rank = 0;              ///< number of this node; nodes are ordered by their lowest rank
  int inter_size = 1;              ///< nodes
  std::vector<int> nodes;          ///< [size] inter_rank of each rank
  std::vector<std::string> hosts;  ///< [size] host name of each rank

  /// Ranks of `node`, ascending.
  [[nodiscard]] std::vector<int> ranks_of(int node) const;
  /// Same number of ranks on every node.
  [[nodiscard]] bool uniform() const;
};

/// The place of `rank` when rank i's node is named node_keys[i]. Pure; any launcher, any distribution.
[[nodiscard]] Topology make_topology(int rank, std::span<const std::string> node_keys,
                                     std::span<const std::string> hosts);

/// Collective over `comm`. Two ranks share a node if their host names are equal and MPI says they can share memory;
/// where MN_NODE_NAME is set on every rank, it alone decides (virtual nodes, for tests and simulations).
[[nodiscard]] Topology find_topology(MPI_Comm comm);

}  // namespace mn
