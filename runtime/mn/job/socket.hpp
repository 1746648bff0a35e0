/// The little of TCP that the peer monitor needs: addresses, calls with deadlines.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mn/core/fd.hpp>

namespace mn {

using Deadline = std::chrono::steady_clock::time_point;

/// Numeric addresses of this host's interfaces that are up, those that its own name resolves to first, bridges of
/// containers and virtual machines last; no loopback, no link-local ones.
[[nodiscard]] std::vector<std::string> local_addresses();

/// A listening TCP socket on a free port, for this host alone or for all; `port` gets the number. Throws CommError.
[[nodiscard]] Fd listen_on_free_port(bool this_host_only, std::uint16_t& port);
/// The next connection; empty after the deadline.
[[nodiscard]] Fd accept_until(const Fd& listener, Deadline deadline);
/// A connection to a numeric address; empty if there is none by the deadline.
[[nodiscard]] Fd connect_until(const std::string& address, std::uint16_t port, Deadline deadline);

/// True if all of `bytes` went out. Never raises SIGPIPE.
bool send_bytes(const Fd& socket, std::span<const std::byte> bytes);
/// True if `bytes` was filled by the deadline.
bool receive_until(const Fd& socket, std::span<std::byte> bytes, Deadline deadline);

}  // namespace mn
