/// Tests whether other nodes can be reached.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <mn/core/net/socket.hpp>

namespace mn::launcher {

/// Connects to all endpoints at once, and closes the connections: an empty text for each endpoint in reach, else the
/// reason.
[[nodiscard]] std::vector<std::string> probe(const std::vector<Endpoint>& endpoints,
                                             std::chrono::milliseconds patience);

}  // namespace mn::launcher
