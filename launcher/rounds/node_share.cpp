#include "rounds/node_share.hpp"

namespace mn::launcher {

void bind(NodeShare& share, const BindingOptions& options) {
  std::vector<RankResources> resources;
  for (const auto& rank : share.ranks) resources.push_back(rank.resources);
  share.bindings = bind_ranks(share.node.machine, resources, options);
}

}  // namespace mn::launcher
