/// The first meeting: which address each node is reached by, and whether it can be.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "facts/facts.hpp"
#include "facts/addresses.hpp"

namespace mn::launcher {

/// This host's names and addresses: {"host", "address", "subnet", "addresses", "subnets",
/// "resolved"}; "subnet" is that of "address".
[[nodiscard]] Facts network_facts(const std::string& host);

/// Where another node listens.
struct Neighbour {
  std::string host;
  std::string address;
  int port = 0;
};

/// Connects to each in turn; one sentence for each that does not answer.
[[nodiscard]] std::vector<std::string> failed_connections(const std::vector<Neighbour>& neighbours,
                                                          std::chrono::milliseconds patience);

}  // namespace mn::launcher
