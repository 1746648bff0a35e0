/// What a job's launchers know of each other after the first round.
#pragma once

#include <string>
#include <vector>

#include "place/layout.hpp"
#include "rounds/absence.hpp"
#include "rounds/round_messages.hpp"

namespace mn::launcher {

/// What is known after the round.
struct Roster {
  StartShare share;  ///< this rank's; without an exit code, all ranks are here
  Start start;       ///< known to leaders
  /// For a leader: the ranks of its node, as the launcher numbers them within it.
  std::vector<int> ranks_here;
  /// For the root: all ranks' nodes, numbered by their lowest rank. Where the launcher connects a node's ranks only, it
  /// is a layout of these, and `numbers` are their ranks.
  Layout layout;
  std::vector<int> numbers;
  /// For the root: the nodes' names, as the launcher numbers nodes.
  std::vector<std::string> hosts;
  double answered_at = 0;  ///< for the root: when it had heard of all ranks, in seconds since the epoch

  /// On the root: the rank that prints what it decides, the lowest that is there.
  [[nodiscard]] int speaker(const MissingRanks& missing) const {
    int i = 0;
    const auto number = [&] { return numbers.empty() ? i : numbers[static_cast<std::size_t>(i)]; };
    while (missing.has(number())) ++i;  // the root's own is there
    return number();
  }
  /// On the root: the ranks of what the launcher calls `node`.
  [[nodiscard]] std::vector<int> ranks_of(std::size_t node) const {
    return numbers.empty() ? layout.ranks_of(start.inter_ranks[node]) : numbers;
  }
};

}  // namespace mn::launcher
