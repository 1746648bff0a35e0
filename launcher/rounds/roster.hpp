/// The state of one rank's start: ThisRank is known before round 1, Roster after round 1, Outcome after round 2
/// (rounds: launch.hpp). Also makes the findings about missing ranks.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <string>
#include <vector>

#include "bind/affinity.hpp"
#include "checks/findings.hpp"
#include "cli/options.hpp"
#include "exchange/exchange.hpp"
#include "facts/surroundings.hpp"
#include "place/derive_rank.hpp"
#include "place/placement.hpp"
#include "rounds/round_messages.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {

/// The finding that `ranks` did not arrive within `patience`. `size`: number of ranks of the job. `hosts`: the nodes of
/// the missing ranks, if known. `is_by_nodes`: whole nodes are missing; perhaps only the first rank of each is late,
/// because it speaks for its node.
[[nodiscard]] Finding late_ranks(const std::vector<std::string>& hosts, const std::vector<int>& ranks, int size,
                                 std::chrono::milliseconds patience, bool is_by_nodes = false);

/// The finding that several processes claim to be `rank`. `hosts`: where the processes run.
[[nodiscard]] Finding doubled_rank(const std::vector<std::string>& hosts, int rank);

/// Adds `rank`, whose part is missing from a round, to absence.late or absence.ended.
void note_absence(AbsentRanks& absence, const Part& missing, int rank);

/// The ranks that are missing from a round, collected on the root.
class MissingRanks {
 public:
  /// Adds the missing ranks that a node reported.
  void note(const std::string& host, const AbsentRanks& absence);
  /// Adds a missing node, with its ranks if known.
  void note(const std::string& host, const Part& missing, const std::vector<int>& ranks);
  /// Whether `rank` is missing from the round. A missing rank gets no answer, so it cannot print the verdict.
  [[nodiscard]] bool has(int rank) const { return std::ranges::find(all_, rank) != all_.end(); }
  /// The findings about the missing ranks; empty if no rank is missing. `known`: the numbers of all missing ranks. If
  /// `known` is not empty, the findings name the ranks in `known` instead of the ranks added by note().
  [[nodiscard]] Findings findings(int size, std::chrono::milliseconds patience,
                                  const std::vector<int>& known = {}) const;

 private:
  struct Group {
    std::vector<std::string> hosts;
    std::vector<int> ranks;
  };
  void add(Group& group, const std::string& host, const std::vector<int>& ranks);

  Group late_;
  bool is_late_by_nodes_ = false;
  Group ended_;
  std::vector<int> all_;  ///< also ranks cut off by an ended node, which findings() does not name
};

struct Roster {
  ArrivalShare share;   ///< answer to this rank; if its exit code is 0, all ranks have arrived
  ArrivalAnswer start;  ///< on leaders: the root's answer of round 1
  /// On leaders: the ranks of the node, in the launcher's order.
  std::vector<int> ranks_here;
  /// On the root: the node of every rank; nodes are numbered by their lowest rank. If the job has several nodes but the
  /// exchange connects the ranks of only one, the layout numbers these ranks from 0, and `numbers` holds their ranks in
  /// the job. Otherwise `numbers` is empty.
  Layout layout;
  std::vector<int> numbers;
  /// On the root: the nodes' names, in the launcher's order.
  std::vector<std::string> hosts;
  double answered_at = 0;  ///< on the root: time of its answer in round 1, in seconds since the epoch

  /// On the root: the rank that prints the verdict, which is the lowest rank that is not missing.
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

struct ThisRank {
  const Options& options;
  Surroundings surroundings;
  int program_exit = 0;  ///< exit code if the program cannot be run
  Placement here;

  [[nodiscard]] bool is_compared() const { return options.check != CheckLevel::kOff || options.doctor; }
  [[nodiscard]] BindingOptions binding_options() const {
    // On a single machine without a scheduler, a user cannot ask for more GPUs. So the ranks may share GPUs there, and
    // get a warning.
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
