/// Socket calls with a deadline.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <mn/core/fd.hpp>
#include <mn/core/net/deadline.hpp>

namespace mn {

/// The next connection; empty if none arrives by the deadline.
[[nodiscard]] Fd accept_until(const Fd& listener, Deadline deadline);
/// A connection to a numeric address; empty if not established by the deadline.
[[nodiscard]] Fd connect_until(const std::string& address, std::uint16_t port, Deadline deadline);

/// True if the socket accepted all of `bytes` at once. Never raises SIGPIPE.
bool send_bytes(const Fd& socket, std::span<const std::byte> bytes);
/// True if the socket accepted all of `bytes` by the deadline. Never raises SIGPIPE.
bool send_until(const Fd& socket, std::span<const std::byte> bytes, Deadline deadline);
/// True if `bytes` was filled by the deadline.
bool receive_until(const Fd& socket, std::span<std::byte> bytes, Deadline deadline);

}  // namespace mn
