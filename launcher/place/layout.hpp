/// The nodes of a job's ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace mn::launcher {

/// Which rank is on which node. Nodes are numbered as ChainerMN does, by their lowest rank.
struct Layout {
  std::vector<int> nodes;          ///< [size] node of each rank
  std::vector<std::string> hosts;  ///< [number of nodes] name of each node

  [[nodiscard]] int size() const noexcept { return static_cast<int>(nodes.size()); }
  [[nodiscard]] int node_count() const noexcept { return static_cast<int>(hosts.size()); }
  [[nodiscard]] const std::string& host_of(int rank) const { return hosts[static_cast<std::size_t>(node_of(rank))]; }
  [[nodiscard]] int node_of(int rank) const { return nodes[static_cast<std::size_t>(rank)]; }
  /// Ranks of `node`, ascending.
  [[nodiscard]] std::vector<int> ranks_of(int node) const;
};

/// The layout when rank i is on the node that its launcher calls ids[i], named names[i]. Ids, not names, tell nodes
/// apart.
[[nodiscard]] Layout make_layout(std::span<const int> ids, std::span<const std::string> names);

}  // namespace mn::launcher
