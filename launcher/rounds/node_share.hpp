/// A node's resources, divided among its ranks.
#pragma once

#include <vector>

#include "bind/binding.hpp"
#include "facts/facts.hpp"

namespace mn::launcher {

/// One node as its ranks reported it.
struct NodeShare {
  NodeFacts node;
  std::vector<RankFacts> ranks;   ///< by rank
  std::vector<Binding> bindings;  ///< the same
};
/// Computes `share.bindings`.
void bind(NodeShare& share, const BindingOptions& options);

}  // namespace mn::launcher
