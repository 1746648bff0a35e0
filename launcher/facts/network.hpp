/// Whether other nodes can be reached.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace mn::launcher {

/// Where another node listens.
struct Neighbor {
  std::string host;
  std::string address;
  int port = 0;
};

/// Connects to each in turn; one sentence for each that does not answer.
[[nodiscard]] std::vector<std::string> failed_connections(const std::vector<Neighbor>& neighbors,
                                                          std::chrono::milliseconds patience);

}  // namespace mn::launcher
