/// Round 1 of a start. The root compares the options of all ranks, numbers the nodes by their lowest ranks, and chooses
/// the speaker, the rank that prints the verdict.
#pragma once

#include <functional>

#include "exchange/exchange.hpp"
#include "rounds/roster.hpp"
#include "rounds/round_messages.hpp"

namespace mn::launcher {

/// Collective: runs round 1. `is_whole` is true if the exchange connects all ranks of the job. `prepare` completes this
/// rank's message; the message then carries the Error that `prepare` may throw. Throws CutOff.
[[nodiscard]] Roster arrive(Exchange& exchange, const ThisRank& rank, bool is_whole,
                            const std::function<void(Arrival&)>& prepare);

}  // namespace mn::launcher
