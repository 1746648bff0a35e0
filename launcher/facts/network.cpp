#include "facts/network.hpp"

#include "facts/addresses.hpp"
#include "facts/collect.hpp"

namespace mn::launcher {

NetworkFacts collect_network_facts(const std::string& host) {
  const auto interfaces = routed_interfaces();
  NetworkFacts facts;
  facts.resolved = resolve(host);
  facts.address = own_address(interfaces, facts.resolved);
  for (const auto& interface : interfaces) {
    facts.addresses.push_back(interface.address);
    facts.subnets.push_back(interface.subnet);
    if (interface.address == facts.address) facts.subnet = interface.subnet;
  }
  return facts;
}

std::vector<std::string> failed_connections(const std::vector<Neighbor>& neighbors,
                                            std::chrono::milliseconds patience) {
  std::vector<std::string> failures;
  for (const auto& to : neighbors) {
    const std::string reason = try_connect(to.address, to.port, patience);
    if (reason.empty()) continue;
    failures.push_back("no TCP connection to " + to.host + " (" + to.address + ":" + std::to_string(to.port) +
                       "): " + reason);
  }
  return failures;
}

}  // namespace mn::launcher
