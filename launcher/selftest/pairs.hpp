/// Which pairs of nodes measure each other, and what their figures say about nodes and links. Pure.
///
/// 1. In round k nodes i and i XOR 2^k are a pair: ceil(log2 n) rounds, in each of which a node has one partner at
///    most. Every node has a partner in some round, and most have one in each.
/// 2. A slow pair is tried again by itself. Its nodes that were fast with no other are tried with nodes that were.
///    One that was only slow beside other pairs is not at fault: many fabrics carry less than all nodes can send at
///    once.
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

/// What a pair measured.
struct Link {
  Pair pair;
  bool answered = false;
  double latency_us = 0;
  double bandwidth_mb_s = 0;
  bool at_once = false;  ///< other pairs sent at the same time
};

/// By round; the pairs of a round are disjoint.
[[nodiscard]] std::vector<std::vector<Pair>> rounds_of_pairs(int nodes);

/// The better figures of each pair that was measured several times; `at_once` if none was by itself.
[[nodiscard]] std::vector<Link> best_of_each_pair(const std::vector<Link>& links);

/// Pairs to try one after the other, 32 at most: first those that were not tried by themselves yet, and among them
/// those of nodes that were not fast with any other. `least_mb_s`: 0, or what every pair should reach.
[[nodiscard]] std::vector<Pair> pairs_to_retry(int nodes, const std::vector<Link>& links, double least_mb_s);

/// What is slow or does not answer.
struct LinkFault {
  std::string text;
  std::vector<std::string> hosts;  ///< the node, or both ends of the link; empty: the whole network
};
/// One for each node, link, or whole network; `hosts` by node.
[[nodiscard]] std::vector<LinkFault> judge_links(const std::vector<std::string>& hosts, const std::vector<Link>& links,
                                                 double least_mb_s);

}  // namespace mn::selftest
