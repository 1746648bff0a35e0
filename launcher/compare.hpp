/// The comparison of a job's nodes, and the verdict whether it may start.
#pragma once

#include "arrive.hpp"
#include "exchange/exchange.hpp"
#include "this_rank.hpp"

namespace mn::launcher {

/// Collective over all ranks of the exchange, after arrive(). `rank.here` is what the roster says. Throws CutOff.
[[nodiscard]] Outcome compare_nodes(Exchange& exchange, const ThisRank& rank, const Roster& roster);

}  // namespace mn::launcher
