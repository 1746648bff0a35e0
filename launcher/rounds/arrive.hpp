/// Round 1 of a start lists ranks, nodes and numbers. The root compares the options of all ranks, numbers the nodes by
/// their lowest rank, and picks the speaker, the rank that prints the verdict. The answer contains each rank's final
/// numbers.
#pragma once

#include <functional>

#include "exchange/exchange.hpp"
#include "rounds/roster.hpp"
#include "rounds/round_messages.hpp"

namespace mn::launcher {

/// Collective: runs round 1. `is_whole`: the exchange connects all ranks of the job. `prepare` completes this rank's
/// message to the root. If `prepare` throws Error, the message contains the error. Throws CutOff.
[[nodiscard]] Roster arrive(Exchange& exchange, const ThisRank& rank, bool is_whole,
                            const std::function<void(Arrival&)>& prepare);

}  // namespace mn::launcher
