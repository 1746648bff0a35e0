/// The first round of a job's launchers: who is here, on which node, and by which numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rounds/absence.hpp"
#include "exchange/exchange.hpp"
#include "rounds/messages.hpp"
#include "place/layout.hpp"
#include "rounds/this_rank.hpp"

namespace mn::launcher {

/// What is known after the round.
struct Roster {
  StartShare share;  ///< this rank's; without an exit code, all ranks are here
  Start start;       ///< known to leaders
  /// Of a leader: the ranks of its node, as the launcher numbers them within it.
  std::vector<int> ranks_here;
  /// Of the root: all ranks' nodes, numbered by their lowest rank. Where the launcher connects a node's ranks only, it
  /// is a layout of these, and `numbers` are their ranks.
  Layout layout;
  std::vector<int> numbers;
  /// Of the root: the nodes' names, as the launcher numbers nodes.
  std::vector<std::string> hosts;
  double answered_at = 0;  ///< of the root: when it had heard of all ranks, in seconds since the epoch

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

/// Seconds since the epoch.
[[nodiscard]] double clock_time();

/// Collective. `is_whole`: the exchange connects all ranks of the job. `prepare` completes what rank 0 says of itself;
/// it may throw Error. Throws CutOff.
[[nodiscard]] Roster arrive(Exchange& exchange, const ThisRank& rank, bool is_whole,
                            const std::function<void(Arrival&)>& prepare);

}  // namespace mn::launcher
