/// The state of one rank during its start. ThisRank is known before round 1, Roster after round 1, and Outcome after
/// round 2 (launch.hpp describes the rounds). Also makes the findings about missing ranks.
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

/// Makes the finding that `ranks`, of the `size` ranks of the job, did not arrive within `patience`. `hosts` has the
/// nodes of the missing ranks, if they are known. `is_by_nodes` says that whole nodes are missing; the text then adds
/// that perhaps only the first rank of a node is late, because the first rank speaks for its node.
[[nodiscard]] Finding late_ranks(const std::vector<std::string>& hosts, const std::vector<int>& ranks, int size,
                                 std::chrono::milliseconds patience, bool is_by_nodes = false);

/// Makes the finding that several processes claim to be the rank `rank`. `hosts` has the host of each such process.
[[nodiscard]] Finding doubled_rank(const std::vector<std::string>& hosts, int rank);

/// Notes that the rank `rank` is missing from a round: adds the rank to absence.late or to absence.ended, by the reason
/// in `missing`.
void note_absence(AbsentRanks& absence, const Part& missing, int rank);

/// Collects, on the root, the ranks that are missing from a round.
class MissingRanks {
 public:
  /// Adds the missing ranks that the node `host` has reported.
  void note(const std::string& host, const AbsentRanks& absence);
  /// Adds the node `host`, whose report is missing, and the node's ranks. `ranks` is empty if the ranks are not known.
  void note(const std::string& host, const Part& missing, const std::vector<int>& ranks);
  /// Whether `rank` is missing from the round. A missing rank gets no answer, so it cannot print the verdict.
  [[nodiscard]] bool has(int rank) const { return std::ranges::find(all_, rank) != all_.end(); }
  /// The findings about the missing ranks; empty if no rank is missing. `known` has the numbers of all missing ranks if
  /// the caller knows them. If `known` is not empty, the findings name these ranks instead of the ranks that note() has
  /// added.
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
  /// On leaders: the ranks of this node, in the order of the launcher's numbers on the node.
  std::vector<int> ranks_here;
  /// On the root: the node of every rank, where nodes are numbered in the order of their lowest ranks. If the exchange
  /// connects only the ranks of one node of several, `layout` counts these ranks from 0, and `numbers` has their real
  /// ranks in the job. Otherwise `numbers` is empty.
  Layout layout;
  std::vector<int> numbers;
  /// On the root: the names of the nodes, in the order of the launcher's node numbers.
  std::vector<std::string> hosts;
  double answered_at = 0;  ///< on the root: time of its answer in round 1, in seconds since the epoch

  /// On the root: returns the rank that prints the verdict, which is the lowest rank among the ranks that are not
  /// missing.
  [[nodiscard]] int speaker(const MissingRanks& missing) const {
    int i = 0;
    const auto number = [&] { return numbers.empty() ? i : numbers[static_cast<std::size_t>(i)]; };
    while (missing.has(number())) ++i;
    assert(i < layout.size());  // the root itself is never missing
    return number();
  }
  /// On the root: the ranks of the node to which the launcher gave the number `node`.
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
    // On a single machine without a scheduler, ranks may share GPUs and only get a warning, because the user cannot ask
    // for more GPUs there.
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
