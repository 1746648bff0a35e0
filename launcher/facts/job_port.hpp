/// MASTER_PORT: the port on which rank 0 of a job listens.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include <mn/core/net/port_range.hpp>

namespace mn::launcher {

/// A port of the first range, derived from `job`.
[[nodiscard]] int port_of_job(std::string_view job, std::span<const PortRange> ranges);

/// port_of_job, or the next port of the ranges that is free on this host. Throws CommError if no port is free.
[[nodiscard]] int free_port_of_job(std::string_view job, std::span<const PortRange> ranges,
                                   const std::function<bool(int)>& is_free);

/// Whether a TCP server could listen on `port` of all addresses.
[[nodiscard]] bool is_free_port(int port);

}  // namespace mn::launcher
