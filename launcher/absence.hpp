/// What is said of ranks that are missing.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "checks/findings.hpp"
#include "exchange/exchange.hpp"
#include "messages.hpp"

namespace mn::launcher {

/// Ranks that did not arrive in time. `hosts`: where they should run, as far as that is known.
[[nodiscard]] Finding late_ranks(const std::vector<std::string>& hosts, const std::vector<int>& ranks, int size,
                                 std::chrono::milliseconds patience);

/// Several processes say that they are `rank`; `hosts`: where they run.
[[nodiscard]] Finding doubled_rank(const std::vector<std::string>& hosts, int rank);

/// Nodes of which ranks are missing from a round.
class MissingRanks {
 public:
  /// A node's own count, and a node that is missing itself.
  void note(const std::string& host, const Absence& absence);
  void note_node(const std::string& host, bool has_ended);
  /// Of these ranks of `size`, as far as they are known; empty if nothing was noted.
  [[nodiscard]] Findings findings(const std::vector<int>& ranks, int size, std::chrono::milliseconds patience) const;

 private:
  std::vector<std::string> late_;
  std::vector<std::string> ended_;
};

/// Counts a part that is missing from a node's round.
void count(Absence& absence, const Part& missing);

}  // namespace mn::launcher
