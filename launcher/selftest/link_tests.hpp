/// Latency and bandwidth between the nodes.
#pragma once

#include <chrono>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/watchdog.hpp>

#include "selftest/pairs.hpp"

namespace mn::selftest {

/// Collective over all ranks; the first rank of each node measures. All pairs of a round measure at once (pairs.hpp);
/// then slow pairs measure again, one by one. A pair gives up if the partner does not answer within `patience`. Rank 0
/// gets all links, each with the pair's better figures. `least_mb_s`: expected bandwidth of every pair, or 0.
///
/// Cost: ceil(log2 n) rounds of 0.1 to 1 s.
[[nodiscard]] std::vector<Link> measure_links(Communicator& comm, double least_mb_s, std::chrono::milliseconds patience,
                                              Watchdog& timer);

}  // namespace mn::selftest
