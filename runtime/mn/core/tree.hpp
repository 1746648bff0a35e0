/// A tree of processes, for connections and for waits. Node 0 is the root. If each node has k children, the children of
/// node n are the nodes k n + 1 to k n + k.
#pragma once

#include <algorithm>
#include <cassert>
#include <vector>

namespace mn {

class Tree {
 public:
  explicit constexpr Tree(int arity) noexcept : arity_(arity) { assert(arity > 0); }

  [[nodiscard]] constexpr int parent_of(int node) const noexcept {
    assert(node > 0);
    return (node - 1) / arity_;
  }

  [[nodiscard]] std::vector<int> children_of(int node, int nodes) const {
    std::vector<int> children;
    for (int child = arity_ * node + 1; child < std::min(arity_ * (node + 1) + 1, nodes); ++child) {
      children.push_back(child);
    }
    return children;
  }

  /// True if `node` is `top` or lies below it.
  [[nodiscard]] constexpr bool is_below(int node, int top) const noexcept {
    while (node > top) node = parent_of(node);
    return node == top;
  }

 private:
  int arity_;
};

}  // namespace mn
