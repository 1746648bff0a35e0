/// How one rank's failure becomes the verdict of all, so that they leave alike, and who prints it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "place/placement.hpp"
#include "rounds/roster.hpp"
#include "rounds/round_messages.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {

/// Runs `work`, which may throw Error; no value if it did not.
[[nodiscard]] std::optional<Failure> failure_of(const Placement& here, const std::function<void()>& work);

/// The verdict of the lowest rank among `failures`, which are not empty; of no rank if all `ranks` failed alike.
[[nodiscard]] Verdict verdict_of(const std::vector<Failure>& failures, int ranks = 0);

/// The verdict as ranks get it that do not print it.
[[nodiscard]] Verdict without_text(const Verdict& verdict);

/// The root's decision on its way to the ranks. Only the rank that prints it needs its text, which may be long.
class Announcement {
 public:
  /// On the root: the answer to the nodes. `ranks_here`: those of its own node.
  [[nodiscard]] std::string announce(Decision decision, const std::vector<int>& ranks_here);
  /// On leaders: what a rank of the node gets.
  [[nodiscard]] Verdict verdict_for(int rank, const std::string& answer);

 private:
  std::optional<Decision> decision_;
};

/// Collective: whether `work`, which may throw Error, succeeded on all ranks. Throws CutOff.
[[nodiscard]] Verdict agree(Exchange& exchange, const Placement& here, const Roster& roster,
                            const std::function<void()>& work);

}  // namespace mn::launcher
