/// The nodes of a job's ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace mn::launcher {

/// The node of each rank. Nodes are numbered as ChainerMN does, by their lowest rank.
struct Layout {
  std::vector<int> nodes;          ///< [size] node of each rank
  std::vector<std::string> hosts;  ///< [number of nodes] name of each node

  [[nodiscard]] int size() const noexcept { return static_cast<int>(nodes.size()); }
  [[nodiscard]] int node_count() const noexcept { return static_cast<int>(hosts.size()); }
  [[nodiscard]] const std::string& host_of(int rank) const { return hosts[static_cast<std::size_t>(node_of(rank))]; }
  [[nodiscard]] int node_of(int rank) const { return nodes[static_cast<std::size_t>(rank)]; }
  /// The ranks of `node`, ascending.
  [[nodiscard]] std::vector<int> ranks_of(int node) const;
};

/// The layout of a job whose rank i runs on the node that the launcher calls ids[i] and names names[i]. Ids tell nodes
/// apart; names may repeat.
[[nodiscard]] Layout make_layout(std::span<const int> ids, std::span<const std::string> names);

}  // namespace mn::launcher
