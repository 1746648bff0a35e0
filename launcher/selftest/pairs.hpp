/// Which pairs of nodes measure each other, and what their figures say about nodes and links. Pure.
///
/// 1. In round k nodes i and i XOR 2^k are a pair: ceil(log2 n) rounds, in each of which a node has one partner at
/// most.
///    Every node has a partner in some round, and most have one in each.
/// 2. A slow pair is tried anew by itself, and those of its nodes that were fast with nobody with others that were. One
///    that was only slow beside other pairs is not at fault: many fabrics carry less than all nodes can send at once.
/// 3. Of a slow pair a node is at fault that has been fast with nobody, while the other has; the link is, if both have.
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

/// Pairs that are to be tried one after the other, 32 at most; first those that have not been yet, and of them those of
/// nodes that were fast with nobody. `least_mb_s`: 0, or what every pair should reach.
[[nodiscard]] std::vector<Pair> pairs_to_try_anew(int nodes, const std::vector<Link>& links, double least_mb_s);

/// What is slow or does not answer.
struct LinkFault {
  std::string text;
  std::vector<std::string> hosts;  ///< the node, or both ends of the link; empty: the whole network
};
/// One for each node, link, or whole network; `hosts` by node.
[[nodiscard]] std::vector<LinkFault> judge_links(const std::vector<std::string>& hosts, const std::vector<Link>& links,
                                                 double least_mb_s);

}  // namespace mn::selftest
