/// Round 2 of a start. Each rank reports its facts. The leader of each node adds the node's facts, and divides the
/// node's cores and GPUs among its ranks. The root runs the checks over all nodes.
///
/// 1. Each node reads its clock after round 1, and again before sending the report. The clock is behind if the first
///    reading is earlier than the root's time before round 1's answer. It is ahead if the second reading is later than
///    the root's time after the report's arrival. Delays of messages cannot cause either, because a message arrives
///    late, never early.
/// 2. Each leader tries to connect to the child nodes in the tree (exchange/group.hpp). The report tells which
///    connections failed, and whether the leader's calls to the parent node failed. Nodes next to the root also try the
///    address of rank 0's node, because programs get this address as MASTER_ADDR.
///
/// Cost: one round (exchange.hpp). The facts of a node take at most 16 KiB, and the facts of a rank with eight GPUs
/// less than 1 KiB. For 4,096 ranks on 512 nodes, the root reads 12 MiB.
#pragma once

#include <functional>

#include "exchange/exchange.hpp"
#include "facts/facts.hpp"
#include "rounds/arrive.hpp"
#include "rounds/roster.hpp"

namespace mn::launcher {

/// The functions that collect this machine's facts, or made-up facts in a test. They may throw Error.
struct FactSources {
  std::function<RankFacts()> of_rank;
  std::function<NodeFacts()> of_node;  ///< called on leaders; the round adds the clock and failed connections
};
[[nodiscard]] FactSources facts_of_this_machine(const ThisRank& rank);

/// Collective: runs round 2. `rank.here` must have the numbers from the roster. Throws CutOff.
[[nodiscard]] Outcome compare_nodes(Exchange& exchange, const ThisRank& rank, const Roster& roster,
                                    const FactSources& sources);

}  // namespace mn::launcher
