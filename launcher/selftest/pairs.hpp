/// Which pairs of nodes measure their link, and which nodes and links are at fault by the figures. Pure functions.
///
/// 1. In round k nodes i and i XOR 2^k are a pair: ceil(log2 n) rounds, in which a node has at most one partner. Every
///    node has a partner in at least one round, and most nodes have one in each round.
/// 2. A slow pair is tried again alone. A node of the pair that was fast with no partner is also tried with a node that
///    was fast. A pair that was slow only while other pairs sent is not at fault: many fabrics carry less than all
///    nodes can send at once.
/// 3. If exactly one node of a slow pair was fast with a third node, its partner in the pair is at fault. If both nodes
///    or neither node was fast with a third node, the link between the two is at fault.
#pragma once

#include <string>
#include <vector>

#include <mn/core/fields.hpp>

namespace mn::selftest {

struct Pair {
  int first = 0;  ///< node; lower than `second`
  int second = 0;
  MN_FIELDS(first, second);
  friend bool operator==(const Pair&, const Pair&) = default;
};

/// The figures of the link between a pair of nodes.
struct Link {
  Pair pair;
  bool answered = false;
  double latency_us = 0;
  double bandwidth_mb_s = 0;
  bool at_once = false;  ///< other pairs sent at the same time
  MN_FIELDS(pair, answered, latency_us, bandwidth_mb_s, at_once);
};

/// The pairs of each round; the pairs of a round are disjoint.
[[nodiscard]] std::vector<std::vector<Pair>> rounds_of_pairs(int nodes);

/// Returns one link for each pair. If a pair was measured several times, its link has the better figures. Link::at_once
/// is true if the pair was never measured alone.
[[nodiscard]] std::vector<Link> best_of_each_pair(const std::vector<Link>& links);

/// Returns at most 32 pairs that are to be tried again, one by one. Pairs that were not yet tried alone come first, and
/// of these first the pairs with a node that was fast with no partner. `least_mb_s`: expected bandwidth of every pair,
/// or 0.
[[nodiscard]] std::vector<Pair> pairs_to_retry(int nodes, const std::vector<Link>& links, double least_mb_s);

/// A slow or silent node, link or network.
struct LinkFault {
  std::string text;
  std::vector<std::string> hosts;  ///< the node, or both ends of the link; empty: the whole network
};
/// Finds the faults of nodes and links, or a single fault of the whole network. `hosts`: names of the nodes.
[[nodiscard]] std::vector<LinkFault> judge_links(const std::vector<std::string>& hosts, const std::vector<Link>& links,
                                                 double least_mb_s);

}  // namespace mn::selftest
