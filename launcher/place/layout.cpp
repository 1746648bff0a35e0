#include "place/layout.hpp"

#include <mn/core/ranks.hpp>

namespace mn::launcher {

std::vector<int> Layout::ranks_of(int node) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (node_of(rank) == node) ranks.push_back(rank);
  }
  return ranks;
}

Layout make_layout(std::span<const int> ids, std::span<const std::string> names) {
  Layout layout{number_nodes(ids), {}};
  for (std::size_t rank = 0; rank < ids.size(); ++rank) {
    if (layout.nodes[rank] == layout.node_count()) layout.hosts.push_back(names[rank]);
  }
  return layout;
}

}  // namespace mn::launcher
