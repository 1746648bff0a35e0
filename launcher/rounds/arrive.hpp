/// The first round of a job's launchers: who is here, on which node, and by which numbers.
#pragma once

#include <functional>

#include "exchange/exchange.hpp"
#include "rounds/roster.hpp"
#include "rounds/round_messages.hpp"
#include "rounds/this_rank.hpp"

namespace mn::launcher {

/// Collective. `is_whole`: the exchange connects all ranks of the job. `prepare` completes what rank 0 says of itself;
/// it may throw Error. Throws CutOff.
[[nodiscard]] Roster arrive(Exchange& exchange, const ThisRank& rank, bool is_whole,
                            const std::function<void(Arrival&)>& prepare);

}  // namespace mn::launcher
