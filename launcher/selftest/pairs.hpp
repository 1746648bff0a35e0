/// The pairs of nodes that measure each other, and the judgment of nodes and links by their figures. Pure.
///
/// 1. In round k nodes i and i XOR 2^k are a pair: ceil(log2 n) rounds, in which a node has at most one partner. Every
///    node has a partner in some round, most nodes in each.
/// 2. A slow pair is tried again alone. Its nodes that were fast with no node are tried with fast nodes. A pair that
///    was slow only beside other pairs is not at fault: many fabrics carry less than all nodes can send at once.
/// 3. If only one node of a slow pair was fast with any other node, the other node is at fault; if both were, the link.
#pragma once

#include <string>
#include <vector>

namespace mn::selftest {

struct Pair {
  int first = 0;  ///< node; lower than `second`
  int second = 0;
  friend bool operator==(const Pair&, const Pair&) = default;
};

/// The figures of a pair.
struct Link {
  Pair pair;
  bool answered = false;
  double latency_us = 0;
  double bandwidth_mb_s = 0;
  bool at_once = false;  ///< other pairs sent at the same time
};

/// By round; the pairs of a round are disjoint.
[[nodiscard]] std::vector<std::vector<Pair>> rounds_of_pairs(int nodes);

/// The better figures of each pair that was measured several times; `at_once` if it was never measured alone.
[[nodiscard]] std::vector<Link> best_of_each_pair(const std::vector<Link>& links);

/// Pairs to try one by one, 32 at most: first pairs not yet tried alone, among them first pairs of nodes that were fast
/// with no node. `least_mb_s`: expected bandwidth of every pair, or 0.
[[nodiscard]] std::vector<Pair> pairs_to_retry(int nodes, const std::vector<Link>& links, double least_mb_s);

/// A slow or silent node, link or network.
struct LinkFault {
  std::string text;
  std::vector<std::string> hosts;  ///< the node, or both ends of the link; empty: the whole network
};
/// A fault for each node, link, or whole network. `hosts`: names of the nodes.
[[nodiscard]] std::vector<LinkFault> judge_links(const std::vector<std::string>& hosts, const std::vector<Link>& links,
                                                 double least_mb_s);

}  // namespace mn::selftest
