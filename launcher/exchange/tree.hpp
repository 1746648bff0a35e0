/// The tree in which the nodes of a job are connected: node n's children are nodes 16 n + 1 to 16 n + 16. Node 0 is the
/// root; 128 nodes are two levels below it, 4,096 three.
#pragma once

#include <algorithm>
#include <vector>

namespace mn::launcher {

inline constexpr int kFanOut = 16;

/// For any node but the root.
[[nodiscard]] inline int parent_of(int node) { return (node - 1) / kFanOut; }

[[nodiscard]] inline std::vector<int> children_of(int node, int nodes) {
  std::vector<int> children;
  for (int child = kFanOut * node + 1; child < std::min(kFanOut * (node + 1) + 1, nodes); ++child) {
    children.push_back(child);
  }
  return children;
}

/// Whether `node` is `top` or lies below it.
[[nodiscard]] inline bool is_below(int node, int top) {
  while (node > top) node = parent_of(node);
  return node == top;
}

}  // namespace mn::launcher
