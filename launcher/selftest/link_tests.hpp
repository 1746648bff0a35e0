/// Measures latency and bandwidth of messages between nodes.
#pragma once

#include <chrono>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/watchdog.hpp>

#include "selftest/pairs.hpp"

namespace mn::selftest {

/// Collective over all ranks; only the first rank of each node measures. First the pairs of each round (pairs.hpp)
/// measure at the same time. Then the slow pairs measure again, one by one. A pair gives up if its partner does not
/// answer within `patience`. `least_mb_s` is the bandwidth that every pair must reach; 0 if it is unknown. On rank 0,
/// the result has all links, each with the best figures of its measurements.
///
/// Cost: ceil(log2 n) rounds of 0.1 to 1 s for n nodes.
[[nodiscard]] std::vector<Link> measure_links(Communicator& comm, double least_mb_s, std::chrono::milliseconds patience,
                                              Watchdog& timer);

}  // namespace mn::selftest
