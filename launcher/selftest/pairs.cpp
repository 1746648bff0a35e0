#include "selftest/pairs.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <set>
#include <utility>

#include "selftest/thresholds.hpp"

namespace mn::selftest {
namespace {

std::string in_mb_s(double bandwidth) { return std::to_string(std::lround(bandwidth)) + " MB/s"; }

/// Returns a bandwidth that a quarter of the pairs exceeds; 0 for a single pair, which has no comparison.
double usual_bandwidth(const std::vector<Link>& links) {
  std::vector<double> sorted;
  for (const auto& link : links) {
    if (link.answered) sorted.push_back(link.bandwidth_mb_s);
  }
  if (links.size() < 2 || sorted.empty()) return 0;
  std::ranges::sort(sorted);
  return sorted[std::min(sorted.size() * 3 / 4, sorted.size() - 1)];
}

struct Speeds {
  double usual = 0;
  std::vector<Link> slow;
  std::vector<Link> fast;
  std::set<int> good;  ///< nodes that were fast with at least one node
};

Speeds speeds_of(const std::vector<Link>& links, double least_mb_s) {
  Speeds speeds;
  speeds.usual = usual_bandwidth(links);
  const double least = std::max(kSlowPart * speeds.usual, least_mb_s);
  for (const auto& link : links) {
    const bool is_fast = link.answered && link.bandwidth_mb_s >= least;
    (is_fast ? speeds.fast : speeds.slow).push_back(link);
    if (is_fast) speeds.good.insert({link.pair.first, link.pair.second});
  }
  return speeds;
}

std::string figure_of(const Link& link, double usual) {
  if (!link.answered) return "does not answer";
  const std::string expected = usual > 0 ? ", other pairs reach about " + in_mb_s(usual) : "";
  return "reaches " + in_mb_s(link.bandwidth_mb_s) + expected;
}

}  // namespace

std::vector<std::vector<Pair>> rounds_of_pairs(int nodes) {
  std::vector<std::vector<Pair>> rounds;
  for (int step = 1; step < nodes; step *= 2) {
    auto& round = rounds.emplace_back();
    for (int node = 0; node < nodes; ++node) {
      // Invariant 1: in each round a node has at most one partner, and the two are partners of each other.
      const int partner = node ^ step;
      if (node < partner && partner < nodes) round.push_back({node, partner});
    }
  }
  assert(nodes < 1 || std::cmp_equal(rounds.size(), std::bit_width(static_cast<unsigned>(nodes - 1))));
  return rounds;
}

std::vector<Link> best_of_each_pair(const std::vector<Link>& links) {
  std::vector<Link> best;
  for (const auto& link : links) {
    const auto same = std::ranges::find(best, link.pair, &Link::pair);
    if (same == best.end()) {
      best.push_back(link);
      continue;
    }
    const bool at_once = same->at_once && link.at_once;
    if (link.answered && (!same->answered || link.bandwidth_mb_s > same->bandwidth_mb_s)) *same = link;
    same->at_once = at_once;
  }
  return best;
}

std::vector<Pair> pairs_to_retry(int nodes, const std::vector<Link>& links, double least_mb_s) {
  constexpr std::size_t kMaxPairs = 32;
  const Speeds speeds = speeds_of(links, least_mb_s);
  std::vector<Pair> pairs;
  const auto add = [&](int a, int b) {
    const Pair pair{std::min(a, b), std::max(a, b)};
    if (a != b && std::ranges::find(pairs, pair) == pairs.end()) pairs.push_back(pair);
  };
  auto slow = speeds.slow;
  const auto is_good = [&](int node) { return speeds.good.contains(node); };
  // Invariant 2: most of the pairs are fast when tried alone.
  std::ranges::stable_sort(slow, {}, [&](const Link& link) {
    return std::pair(!link.at_once, is_good(link.pair.first) && is_good(link.pair.second));
  });
  for (const auto& [pair, answered, latency, bandwidth, at_once] : slow) {
    add(pair.first, pair.second);
    for (const int node : {pair.first, pair.second}) {
      if (is_good(node)) continue;
      // The next good node after `node`: different slow nodes get different partners.
      for (int i = 1; i < nodes; ++i) {
        const int other = (node + i) % nodes;
        if (!is_good(other) || other == pair.first || other == pair.second) continue;
        add(node, other);
        break;
      }
    }
    if (pairs.size() >= kMaxPairs) break;
  }
  pairs.resize(std::min(pairs.size(), kMaxPairs));
  return pairs;
}

std::vector<LinkFault> judge_links(const std::vector<std::string>& hosts, const std::vector<Link>& links,
                                   double least_mb_s) {
  const Speeds speeds = speeds_of(links, least_mb_s);
  const auto host = [&](int node) { return hosts[static_cast<std::size_t>(node)]; };
  // The fault lies with the whole network, or with MPI's use of it.
  if (speeds.fast.empty() && links.size() > 1) {
    const auto best = std::ranges::max_element(links, {}, &Link::bandwidth_mb_s);
    return {{"no pair of nodes reaches " + in_mb_s(least_mb_s) + "; the fastest " + figure_of(*best, 0) +
                 ": does MPI use the fast network?",
             {}}};
  }
  std::vector<LinkFault> faults;
  std::set<int> named;
  for (const auto& link : speeds.slow) {
    if (link.answered && link.at_once) continue;
    const auto& [first, second] = link.pair;
    const bool first_good = speeds.good.contains(first);
    const bool second_good = speeds.good.contains(second);
    // Invariant 3: of two nodes, the node that was fast with a third node is sound.
    if (first_good != second_good) {
      const int bad = first_good ? second : first;
      if (named.insert(bad).second) {
        faults.push_back({"the network of " + host(bad) + ": with " + host(first_good ? first : second) + " it " +
                              figure_of(link, speeds.usual),
                          {host(bad)}});
      }
    } else {
      faults.push_back({"the link " + host(first) + " - " + host(second) + " " + figure_of(link, speeds.usual),
                        {host(first), host(second)}});
    }
  }
  return faults;
}

}  // namespace mn::selftest
