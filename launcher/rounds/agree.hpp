/// Round 3 of a start, and how the failure of one rank becomes the verdict for all ranks. Every rank exits with the
/// verdict's exit code, and a single rank, the speaker, prints the verdict's text.
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

/// Runs `work`. If `work` throws Error, returns the error as this rank's failure; else no value.
[[nodiscard]] std::optional<Failure> failure_of(const Placement& here, const std::function<void()>& work);

/// Makes the verdict from the failure of the lowest rank among `failures`, which must not be empty. The text names the
/// rank, unless all ranks failed with the same text. `ranks` is the number of ranks of the job. If it is 0, the text
/// names the rank in any case.
[[nodiscard]] Verdict verdict_of(const std::vector<Failure>& failures, int ranks = 0);

/// The exit code of `verdict` without the texts, for ranks that print nothing.
[[nodiscard]] Verdict without_text(const Verdict& verdict);

/// Collective: runs `work`, which may throw Error, on every rank. The verdict allows the start if `work` succeeded on
/// all ranks. Throws CutOff.
[[nodiscard]] Verdict agree(Exchange& exchange, const Placement& here, const Roster& roster,
                            const std::function<void()>& work);

}  // namespace mn::launcher
