/// Pure functions that choose pairs of nodes for measuring links, and conclude which nodes and links are at fault.
///
/// 1. In round k, the nodes i and i XOR 2^k are a pair. So n nodes need ceil(log2 n) rounds, and in each round a node
///    has at most one partner. Every node has a partner in at least one round, most nodes in every round.
/// 2. A slow pair is tried again while no other pair sends. If a node of the pair was fast with no partner, it is also
///    tried with a fast node. A pair that is slow only while other pairs send is not at fault: many networks cannot
///    carry all that the nodes can send.
/// 3. If exactly one node of a slow pair was fast with a third node, its partner in the slow pair is at fault. If both
///    nodes were fast with a third node, or neither was, the link between the two nodes is at fault.
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

struct Link {
  Pair pair;
  bool answered = false;
  double latency_us = 0;
  double bandwidth_mb_s = 0;
  bool at_once = false;  ///< other pairs sent at the same time
  MN_FIELDS(pair, answered, latency_us, bandwidth_mb_s, at_once);
};

[[nodiscard]] std::vector<std::vector<Pair>> rounds_of_pairs(int nodes);

/// Returns one Link for each pair, with its best figures. Link::at_once: other pairs sent during all measurements.
[[nodiscard]] std::vector<Link> best_of_each_pair(const std::vector<Link>& links);

/// Returns at most 32 pairs for a second try. Pairs not yet tried alone come first, then pairs with a node that was
/// fast with no partner. Every pair must reach `least_mb_s` (0: unknown).
[[nodiscard]] std::vector<Pair> pairs_to_retry(int nodes, const std::vector<Link>& links, double least_mb_s);

/// A node or link that is slow or does not answer, or a network in which all pairs are slow.
struct LinkFault {
  std::string text;
  std::vector<std::string> hosts;  ///< the node, or both ends of the link; empty: the whole network
};
/// Returns the faults of single nodes and links, or one fault of the whole network. `hosts` has the nodes' names.
[[nodiscard]] std::vector<LinkFault> judge_links(const std::vector<std::string>& hosts, const std::vector<Link>& links,
                                                 double least_mb_s);

}  // namespace mn::selftest
