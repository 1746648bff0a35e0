/// The members of a job, as a rank knows them after round 1.
#pragma once

#include <cassert>
#include <string>
#include <vector>

#include "place/layout.hpp"
#include "rounds/absence.hpp"
#include "rounds/round_messages.hpp"

namespace mn::launcher {

struct Roster {
  ArrivalShare share;   ///< this rank's share; without an exit code, all ranks have arrived
  ArrivalAnswer start;  ///< on leaders
  /// On leaders: the ranks of the node, in the launcher's order.
  std::vector<int> ranks_here;
  /// On the root: the node of every rank, numbered by lowest rank. If the exchange connects the ranks of a single node
  /// of several, the layout counts these ranks from 0, and `numbers` holds their real numbers.
  Layout layout;
  std::vector<int> numbers;
  /// On the root: the nodes' names, in the launcher's order.
  std::vector<std::string> hosts;
  double answered_at = 0;  ///< on the root: when it had heard of all ranks, in seconds since the epoch

  /// On the root: the lowest rank that is not missing; it prints the verdict.
  [[nodiscard]] int speaker(const MissingRanks& missing) const {
    int i = 0;
    const auto number = [&] { return numbers.empty() ? i : numbers[static_cast<std::size_t>(i)]; };
    while (missing.has(number())) ++i;
    assert(i < layout.size());  // the root itself is never missing
    return number();
  }
  /// On the root: the ranks of the node with the launcher's number `node`.
  [[nodiscard]] std::vector<int> ranks_of(std::size_t node) const {
    return numbers.empty() ? layout.ranks_of(start.inter_ranks[node]) : numbers;
  }
};

}  // namespace mn::launcher
