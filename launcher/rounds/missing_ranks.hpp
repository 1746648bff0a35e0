/// The ranks that are missing from a round, and the findings about them.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "checks/findings.hpp"
#include "exchange/exchange.hpp"
#include "rounds/round_messages.hpp"

namespace mn::launcher {

/// Makes the finding that `ranks`, of the `size` ranks of the job, did not arrive within `patience`. `hosts` has the
/// nodes of the missing ranks, if they are known. If `is_by_nodes`, whole nodes are missing; the text then adds that
/// perhaps only the first rank of a node, which speaks for its node, is late.
[[nodiscard]] Finding late_ranks(const std::vector<std::string>& hosts, const std::vector<int>& ranks, int size,
                                 std::chrono::milliseconds patience, bool is_by_nodes = false);

/// Makes the finding that a process on each of `hosts` claims to be the rank `rank`.
[[nodiscard]] Finding doubled_rank(const std::vector<std::string>& hosts, int rank);

/// Notes that the rank `rank` is missing, in absence.late or absence.ended, by the reason in `missing`.
void note_absence(AbsentRanks& absence, const Part& missing, int rank);

/// Collects, on the root, the ranks that are missing from a round.
class MissingRanks {
 public:
  /// Adds the missing ranks that the node `host` has reported.
  void note(const std::string& host, const AbsentRanks& absence);
  /// Adds the node `host`, whose report is missing, and the node's ranks (empty if not known).
  void note(const std::string& host, const Part& missing, const std::vector<int>& ranks);
  /// A missing rank gets no answer, so it cannot print the verdict.
  [[nodiscard]] bool has(int rank) const { return std::ranges::find(all_, rank) != all_.end(); }
  /// The findings about the missing ranks; empty if no rank is missing. If `known` is not empty, the findings name
  /// `known` instead of the ranks added by note().
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

}  // namespace mn::launcher
