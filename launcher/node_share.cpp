#include "node_share.hpp"

namespace mn::launcher {

RankResources resources_of(const Facts& rank) {
  RankResources resources{parse_cpus(rank.at("mask").get<std::string>()), {}};
  for (const auto& gpu : rank.at("gpus")) {
    resources.gpus.push_back({gpu.at(0).get<std::string>(), gpu.at(1).get<std::string>()});
  }
  return resources;
}

void bind(NodeShare& share, const BindingOptions& options) {
  std::vector<RankResources> resources;
  for (const auto& rank : share.ranks) resources.push_back(resources_of(rank));
  share.bindings = bind_ranks(share.node.at("machine").get<Machine>(), resources, options);
}

}  // namespace mn::launcher
