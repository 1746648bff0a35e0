/// Round 1 of a start lists the ranks and nodes of the job. The root compares the options of all ranks, numbers the
/// nodes in the order of their lowest ranks, and chooses the speaker, the rank that prints the verdict. The answer
/// tells each rank its final numbers.
#pragma once

#include <functional>

#include "exchange/exchange.hpp"
#include "rounds/roster.hpp"
#include "rounds/round_messages.hpp"

namespace mn::launcher {

/// Collective: runs round 1. `is_whole` says that the exchange connects all ranks of the job. `prepare` completes this
/// rank's message to the root. If `prepare` throws Error, the message contains the error. Throws CutOff.
[[nodiscard]] Roster arrive(Exchange& exchange, const ThisRank& rank, bool is_whole,
                            const std::function<void(Arrival&)>& prepare);

}  // namespace mn::launcher
