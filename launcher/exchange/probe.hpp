/// Whether other nodes can be reached.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <mn/core/net/socket.hpp>

namespace mn::launcher {

/// Connects to all at once, and closes again: for each endpoint an empty text, or why it cannot be reached in time.
[[nodiscard]] std::vector<std::string> probe(const std::vector<Endpoint>& endpoints,
                                             std::chrono::milliseconds patience);

}  // namespace mn::launcher
