/// Sockets that never block and that close on exec: TCP sockets or, between processes of one node, Unix sockets with
/// names in Linux's abstract space (unix(7)), which leave no file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mn/core/fd.hpp>
#include <mn/core/net/deadline.hpp>

namespace mn {

/// The address of a listener: a numeric IP address and a port, or "@NAME" within the node.
struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};
[[nodiscard]] std::string to_text(const Endpoint& endpoint);

enum class Reach { kAllHosts, kThisHost };

/// Listen on a TCP port (0 means any free port) or on a socket name. Return an empty Fd if the port or name is taken,
/// and throw CommError for all other errors.
[[nodiscard]] Fd listen_on_port(std::uint16_t port, Reach reach = Reach::kAllHosts);
[[nodiscard]] Fd listen_on_name(const std::string& name);

/// The TCP port of the listener. Throws CommError if the system fails.
[[nodiscard]] std::uint16_t port_of(const Fd& listener);

/// Accepts the next waiting connection. Empty if no connection waits or, after 10 ms, if no file descriptor is free.
[[nodiscard]] Fd accept_waiting(const Fd& listener);

/// Begins a connection and does not wait. Once the socket is writable, connection_error() gives the result. If the
/// connection fails at once, returns an empty Fd with errno set.
[[nodiscard]] Fd begin_connection(const Endpoint& to);
/// Returns 0 if the connection is established, else the errno of the failure.
[[nodiscard]] int connection_error(const Fd& socket);

/// True if the process at the other end of a local socket runs as the calling process's user.
[[nodiscard]] bool is_own_users(const Fd& local_socket);

// The following functions with a deadline block, but not beyond the deadline.

/// Accepts the next connection. Returns an empty Fd if no connection arrives by the deadline.
[[nodiscard]] Fd accept_until(const Fd& listener, Deadline deadline);
/// Connects to a numeric address. Returns an empty Fd if the connection is not established by the deadline.
[[nodiscard]] Fd connect_until(const std::string& address, std::uint16_t port, Deadline deadline);

/// Sends `bytes` without waiting. True if the socket accepted all bytes at once. Never raises SIGPIPE.
bool send_bytes(const Fd& socket, std::span<const std::byte> bytes);
/// Sends `bytes`. True if the socket has accepted all of them by the deadline. Never raises SIGPIPE.
bool send_until(const Fd& socket, std::span<const std::byte> bytes, Deadline deadline);
/// Receives data until `bytes` is full. True if `bytes` is full by the deadline.
bool receive_until(const Fd& socket, std::span<std::byte> bytes, Deadline deadline);

/// The numeric addresses of `host`, in the order to try. Empty if the name is not resolved by the deadline.
[[nodiscard]] std::vector<std::string> addresses_of(const std::string& host, Deadline deadline);

}  // namespace mn
