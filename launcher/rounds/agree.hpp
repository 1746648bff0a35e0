/// Round 3 of a start, and how the failure of a rank becomes the verdict of all: every rank leaves with the verdict's
/// exit code, and a single rank, the speaker, prints its text.
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

/// Runs `work`, which may throw Error. No value if it succeeded.
[[nodiscard]] std::optional<Failure> failure_of(const Placement& here, const std::function<void()>& work);

/// The failure of the lowest rank among `failures`, which must not be empty. Without the name of a rank if all `ranks`
/// failed alike.
[[nodiscard]] Verdict verdict_of(const std::vector<Failure>& failures, int ranks = 0);

/// The verdict for silent ranks.
[[nodiscard]] Verdict without_text(const Verdict& verdict);

/// The root's decision on its way to the ranks. Only the speaker gets the text, which may be long.
class Announcement {
 public:
  /// On the root: the message to other nodes. `ranks_here`: the ranks of the root's node.
  [[nodiscard]] std::string announce(Decision decision, const std::vector<int>& ranks_here);
  /// On leaders: the verdict for a rank of the node.
  [[nodiscard]] Verdict verdict_for(int rank, const std::string& answer);

 private:
  std::optional<Decision> decision_;
};

/// Collective: runs `work`, which may throw Error, on every rank. The verdict allows the start if it succeeded on all
/// ranks. Throws CutOff.
[[nodiscard]] Verdict agree(Exchange& exchange, const Placement& here, const Roster& roster,
                            const std::function<void()>& work);

}  // namespace mn::launcher
