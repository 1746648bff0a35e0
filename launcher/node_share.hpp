/// A node's resources, shared out between its ranks from what they told.
#pragma once

#include <vector>

#include "bind/binding.hpp"
#include "facts/facts.hpp"

namespace mn::launcher {

[[nodiscard]] RankResources resources_of(const Facts& rank);

/// One node as its ranks told it.
struct NodeShare {
  Facts node;
  std::vector<Facts> ranks;       ///< by rank
  std::vector<Binding> bindings;  ///< the same
};
/// Computes `share.bindings`.
void bind(NodeShare& share, const BindingOptions& options);

}  // namespace mn::launcher
