/// Findings about missing ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "checks/findings.hpp"
#include "exchange/exchange.hpp"
#include "rounds/round_messages.hpp"

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

}  // namespace mn::launcher
