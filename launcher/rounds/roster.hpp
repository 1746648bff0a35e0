/// The state of one rank during its start: ThisRank before round 1, Roster after round 1, Outcome after round 2
/// (launch.hpp describes the rounds).
#pragma once

#include <cassert>
#include <string>
#include <vector>

#include "bind/affinity.hpp"
#include "cli/options.hpp"
#include "facts/surroundings.hpp"
#include "place/derive_rank.hpp"
#include "place/placement.hpp"
#include "rounds/missing_ranks.hpp"
#include "rounds/round_messages.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {

struct Roster {
  ArrivalShare share;   ///< answer to this rank; if its exit code is 0, all ranks have arrived
  ArrivalAnswer start;  ///< on leaders: the root's answer of round 1
  /// On leaders: the ranks of this node, by the launcher's numbers on the node.
  std::vector<int> ranks_here;
  /// On the root: the node of every rank (nodes are numbered by their lowest ranks). If the exchange connects only one
  /// node of several, `layout` counts its ranks from 0, and `numbers` has their ranks in the job. Otherwise `numbers`
  /// is empty.
  Layout layout;
  std::vector<int> numbers;
  /// On the root: the names of the nodes, by the launcher's node numbers.
  std::vector<std::string> hosts;
  double answered_at = 0;  ///< on the root: time of its answer in round 1, in seconds since the epoch

  /// On the root: the lowest rank that is not missing. It prints the verdict.
  [[nodiscard]] int speaker(const MissingRanks& missing) const {
    int i = 0;
    const auto number = [&] { return numbers.empty() ? i : numbers[static_cast<std::size_t>(i)]; };
    while (missing.has(number())) ++i;
    assert(i < layout.size());  // the root itself is never missing
    return number();
  }
  /// On the root: the ranks of the launcher's node number `node`.
  [[nodiscard]] std::vector<int> ranks_of(std::size_t node) const {
    return numbers.empty() ? layout.ranks_of(start.inter_ranks[node]) : numbers;
  }
};

struct ThisRank {
  const Options& options;
  Surroundings surroundings;
  int program_exit = 0;  ///< exit code if the program cannot be run
  Placement here;

  [[nodiscard]] bool is_compared() const { return options.check != CheckLevel::kOff || options.doctor; }
  [[nodiscard]] BindingOptions binding_options() const {
    // On a single machine without a scheduler the user cannot get more GPUs, so ranks may share them, with a warning.
    const bool may_share = options.oversubscribe_gpu || (here.inter_size == 1 && !is_by_slurm(here));
    return {.bind_cores = options.bind, .oversubscribe_gpu = may_share, .cpu_map = options.cpu_map};
  }
};

struct Outcome {
  Master master;
  Binding binding;
  std::vector<VisibleGpu> gpus;
  Verdict verdict;  ///< has a text on the speaker only
};

}  // namespace mn::launcher
