/// Round 2 of a start: each rank reports its facts, the leader of each node adds the facts of the node and divides the
/// node's cores and GPUs, and the root runs the checks over all nodes.
///
/// 1. Each node reads its clock twice: after round 1, and when it reports. A clock is behind the root's if the first
///    reading is earlier than the root's reading before round 1's answer, and ahead if the second reading is later than
///    the root's reading after the report: the delay of a message cannot explain such a reading.
/// 2. Each leader tries to connect to the nodes below in the tree (exchange/group.hpp), and reports its failed calls to
///    the node above. Nodes next to the root also try the address of rank 0's node, which programs get as MASTER_ADDR.
///
/// Cost: one round (exchange.hpp). A node's facts take at most 16 KiB, a rank's with eight GPUs below 1 KiB: the root
/// reads 12 MiB for 4,096 ranks on 512 nodes.
#pragma once

#include <functional>

#include "exchange/exchange.hpp"
#include "facts/facts.hpp"
#include "rounds/arrive.hpp"
#include "rounds/roster.hpp"

namespace mn::launcher {

/// Where facts come from: this machine, or a test. Both functions may throw Error.
struct FactSources {
  std::function<RankFacts()> of_rank;
  std::function<NodeFacts()> of_node;  ///< called on leaders; the round adds the clock and failed connections
};
[[nodiscard]] FactSources facts_of_this_machine(const ThisRank& rank);

/// Collective over all ranks of the exchange, after arrive(). `rank.here` must hold the roster's numbers. Throws
/// CutOff.
[[nodiscard]] Outcome compare_nodes(Exchange& exchange, const ThisRank& rank, const Roster& roster,
                                    const FactSources& sources);

}  // namespace mn::launcher
