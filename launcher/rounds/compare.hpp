/// The comparison of a job's nodes, and the verdict whether it may start.
#pragma once

#include <functional>

#include "exchange/exchange.hpp"
#include "facts/facts.hpp"
#include "rounds/arrive.hpp"
#include "rounds/this_rank.hpp"

namespace mn::launcher {

/// Where facts come from: this machine, or what a test makes up. Both may throw Error.
struct FactSources {
  std::function<RankFacts()> of_rank;
  std::function<NodeFacts()> of_node;  ///< on the first rank of the node, which adds the clock and failed connections
};
[[nodiscard]] FactSources facts_of_this_machine(const ThisRank& rank);

/// Collective over all ranks of the exchange, after arrive(). `rank.here` is what the roster says. Throws CutOff.
[[nodiscard]] Outcome compare_nodes(Exchange& exchange, const ThisRank& rank, const Roster& roster,
                                    const FactSources& sources);

}  // namespace mn::launcher
