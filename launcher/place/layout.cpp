#include "place/layout.hpp"

#include <map>

namespace mn::launcher {

std::vector<int> Layout::ranks_of(int node) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (node_of(rank) == node) ranks.push_back(rank);
  }
  return ranks;
}

Layout make_layout(std::span<const int> ids, std::span<const std::string> names) {
  Layout layout;
  std::map<int, int> node_of_id;
  for (std::size_t rank = 0; rank < ids.size(); ++rank) {
    const auto [entry, is_new] = node_of_id.emplace(ids[rank], layout.node_count());
    if (is_new) layout.hosts.push_back(names[rank]);
    layout.nodes.push_back(entry->second);
  }
  return layout;
}

}  // namespace mn::launcher
