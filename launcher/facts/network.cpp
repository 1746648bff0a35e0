#include "facts/network.hpp"

namespace mn::launcher {

Facts network_facts(const std::string& host) {
  const auto interfaces = routed_interfaces();
  const auto resolved = resolve(host);
  const std::string address = own_address(interfaces, resolved);
  Facts facts = {{"host", host},         {"address", address},          {"subnet", ""},
                 {"resolved", resolved}, {"addresses", Facts::array()}, {"subnets", Facts::array()}};
  for (const auto& interface : interfaces) {
    facts["addresses"].push_back(interface.address);
    facts["subnets"].push_back(interface.subnet);
    if (interface.address == address) facts["subnet"] = interface.subnet;
  }
  return facts;
}

std::vector<std::string> failed_connections(const std::vector<Neighbour>& neighbours,
                                            std::chrono::milliseconds patience) {
  std::vector<std::string> failures;
  for (const auto& to : neighbours) {
    const std::string reason = try_connect(to.address, to.port, patience);
    if (reason.empty()) continue;
    failures.push_back("no TCP connection to " + to.host + " (" + to.address + ":" + std::to_string(to.port) +
                       "): " + reason);
  }
  return failures;
}

}  // namespace mn::launcher
