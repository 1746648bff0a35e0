/// What is said of ranks that are missing.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "checks/findings.hpp"
#include "exchange/exchange.hpp"
#include "rounds/round_messages.hpp"

namespace mn::launcher {

/// Ranks that did not arrive in time. `hosts`: where they should run, as far as that is known. `is_by_nodes`: of whole
/// nodes, whose first ranks alone may be missing.
[[nodiscard]] Finding late_ranks(const std::vector<std::string>& hosts, const std::vector<int>& ranks, int size,
                                 std::chrono::milliseconds patience, bool is_by_nodes = false);

/// Several processes say that they are `rank`; `hosts`: where they run.
[[nodiscard]] Finding doubled_rank(const std::vector<std::string>& hosts, int rank);

/// Adds a rank of a node whose part is missing.
void note_absence(Absence& absence, const Part& missing, int rank);

/// Ranks that are missing from a round, as they are reported to the root.
class MissingRanks {
 public:
  /// A node's own list.
  void note(const std::string& host, const Absence& absence);
  /// A node that is missing itself, with its ranks as far as they are known.
  void note(const std::string& host, const Part& missing, const std::vector<int>& ranks);
  /// Whether the rank was noted, so that no answer reaches it.
  [[nodiscard]] bool has(int rank) const { return std::ranges::find(all_, rank) != all_.end(); }
  /// Empty if nothing was noted. `known`: the numbers of all that are missing, where nodes could not tell them.
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
  std::vector<int> all_;  ///< also those cut off by others, of which nothing is said
};

}  // namespace mn::launcher
