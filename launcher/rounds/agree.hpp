/// Runs round 3 of a start, and turns the failure of one rank into the verdict for all ranks. Every rank exits with the
/// exit code of the verdict. Only one rank, the speaker, prints the text of the verdict.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "exchange/exchange.hpp"
#include "place/placement.hpp"
#include "rounds/roster.hpp"
#include "rounds/round_messages.hpp"
#include "rounds/verdict.hpp"

namespace mn::launcher {

/// Runs `work`. If `work` throws an Error, returns the error as a failure of this rank. No value if `work` succeeds.
[[nodiscard]] std::optional<Failure> failure_of(const Placement& here, const std::function<void()>& work);

/// Makes the verdict from the failure of the lowest rank among `failures`, which must not be empty. The text names the
/// failed rank, unless all ranks of the job have failed with the same text. `ranks` is the number of ranks of the job;
/// if `ranks` is 0, the text names the failed rank in any case.
[[nodiscard]] Verdict verdict_of(const std::vector<Failure>& failures, int ranks = 0);

/// Returns the exit code of `verdict` and no texts, for ranks that print nothing.
[[nodiscard]] Verdict without_text(const Verdict& verdict);

/// Collective: runs `work` on every rank; `work` may throw Error. The verdict allows the start only if `work` has
/// succeeded on all ranks. Throws CutOff.
[[nodiscard]] Verdict agree(Exchange& exchange, const Placement& here, const Roster& roster,
                            const std::function<void()>& work);

}  // namespace mn::launcher
