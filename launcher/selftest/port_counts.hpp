/// Events that the network cards of a node counted during the self test; the counters themselves began long ago.
#pragma once

#include <string>
#include <vector>

#include "facts/ports.hpp"

namespace mn::selftest {

/// "passed", or FAILED with the ports that lost their link or counted errors between the two readings; empty without
/// ports. Pure.
[[nodiscard]] std::string judge_ports(const std::vector<launcher::PortFacts>& before,
                                      const std::vector<launcher::PortFacts>& after);

}  // namespace mn::selftest
