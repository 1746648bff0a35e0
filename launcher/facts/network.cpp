#include <mn/core/net/interfaces.hpp>

#include "facts/collect.hpp"

namespace mn::launcher {

NetworkFacts collect_network_facts() {
  const auto interfaces = routed_interfaces();
  NetworkFacts facts;
  facts.resolved = addresses_of_own_name();
  facts.address = own_address(interfaces, facts.resolved);
  for (const auto& interface : interfaces) {
    facts.addresses.push_back(interface.address);
    facts.subnets.push_back(interface.subnet);
    if (interface.address == facts.address) facts.subnet = interface.subnet;
  }
  return facts;
}

}  // namespace mn::launcher
