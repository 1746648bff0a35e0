/// Runs round 3 of a start: turns the failure of one rank into the verdict for all, which the speaker prints.
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

/// Runs `work`. Returns an Error of `work` as this rank's failure; no value if `work` succeeds.
[[nodiscard]] std::optional<Failure> failure_of(const Placement& here, const std::function<void()>& work);

/// Makes the verdict from the failure of the lowest rank. The text names the rank, unless all `ranks` ranks of the job
/// have failed with the same text. With 0, the text always names the rank.
[[nodiscard]] Verdict verdict_of(const std::vector<Failure>& failures, int ranks = 0);

/// The exit code of `verdict` without texts, for ranks that print nothing.
[[nodiscard]] Verdict without_text(const Verdict& verdict);

/// Collective: runs `work` (it may throw Error) on every rank, and allows the start if all succeed. Throws CutOff.
[[nodiscard]] Verdict agree(Exchange& exchange, const Placement& here, const Roster& roster,
                            const std::function<void()>& work);

}  // namespace mn::launcher
