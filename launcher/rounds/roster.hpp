/// What a rank knows of itself before round 1, of the members of the job after round 1, and of its start after round 2;
/// findings about missing ranks.
#pragma once

#include <algorithm>
#include <cassert>
#include <chrono>
#include <string>
#include <vector>

#include "bind/binding.hpp"
#include "checks/findings.hpp"
#include "cli/options.hpp"
#include "exchange/exchange.hpp"
#include "facts/surroundings.hpp"
#include "place/launchers.hpp"
#include "place/placement.hpp"
#include "rounds/round_messages.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {

/// Ranks that did not arrive in time. `hosts`: the nodes of the ranks, if known. `is_by_nodes`: whole nodes are
/// missing, perhaps because of their first ranks alone.
[[nodiscard]] Finding late_ranks(const std::vector<std::string>& hosts, const std::vector<int>& ranks, int size,
                                 std::chrono::milliseconds patience, bool is_by_nodes = false);

/// Several processes claim to be `rank`. `hosts`: where the processes run.
[[nodiscard]] Finding doubled_rank(const std::vector<std::string>& hosts, int rank);

/// Adds the rank of a missing part of this node.
void note_absence(AbsentRanks& absence, const Part& missing, int rank);

/// The ranks that miss a round, collected on the root.
class MissingRanks {
 public:
  /// Adds the missing ranks that a node reported.
  void note(const std::string& host, const AbsentRanks& absence);
  /// Adds a missing node, with its ranks if known.
  void note(const std::string& host, const Part& missing, const std::vector<int>& ranks);
  /// Whether `rank` misses the round: no answer reaches it.
  [[nodiscard]] bool has(int rank) const { return std::ranges::find(all_, rank) != all_.end(); }
  /// Empty if no rank is missing. `known`: numbers of all missing ranks; preferred to the nodes' own lists.
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
  std::vector<int> all_;  ///< also ranks behind an ended node, which findings() does not name
};

struct Roster {
  ArrivalShare share;   ///< this rank's share; without an exit code, all ranks have arrived
  ArrivalAnswer start;  ///< on leaders
  /// On leaders: the ranks of the node, in the launcher's order.
  std::vector<int> ranks_here;
  /// On the root: the node of every rank; nodes are numbered by their lowest rank. If the job has several nodes but the
  /// exchange connects the ranks of only one, the layout numbers these ranks from 0, and `numbers` holds their ranks in
  /// the job. Otherwise `numbers` is empty.
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

struct ThisRank {
  const Options& options;
  Surroundings surroundings;
  int program_exit = 0;  ///< exit code if the program cannot be run
  Placement here;

  [[nodiscard]] bool is_compared() const { return options.check != CheckLevel::kOff || options.doctor; }
  [[nodiscard]] BindingOptions binding_options() const {
    // On a single machine without a scheduler nobody could ask for more GPUs: the ranks share GPUs, with a warning.
    const bool may_share = options.oversubscribe_gpu || (here.inter_size == 1 && !is_by_slurm(here));
    return {.bind_cores = options.bind, .oversubscribe_gpu = may_share, .cpu_map = options.cpu_map};
  }
};

struct Outcome {
  Master master;
  Binding binding;
  std::vector<VisibleGpu> gpus;
  Verdict verdict;  ///< with its text only on the speaker
};

}  // namespace mn::launcher
