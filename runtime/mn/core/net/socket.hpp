/// Sockets that never block and close on exec: TCP, and, for processes of a node, names in Linux's abstract space
/// (unix(7)), which leave no file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <mn/core/fd.hpp>
#include <mn/core/net/deadline.hpp>

namespace mn {

/// A listener's address: a numeric address and a port, or "@NAME" within the node.
struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};
[[nodiscard]] std::string to_text(const Endpoint& endpoint);

/// The hosts from which a listener accepts connections.
enum class Reach { kAllHosts, kThisHost };

/// Listens on a TCP port (0: any free port) or a name. Empty if the port or name is taken; throws CommError for other
/// errors.
[[nodiscard]] Fd listen_on_port(std::uint16_t port, Reach reach = Reach::kAllHosts);
[[nodiscard]] Fd listen_on_name(const std::string& name);

/// The listener's TCP port. Throws CommError.
[[nodiscard]] std::uint16_t port_of(const Fd& listener);

/// The next waiting connection; empty if none waits. If no descriptor is free, sleeps 10 ms and returns empty.
[[nodiscard]] Fd accept_waiting(const Fd& listener);

/// Begins a connection. Once the socket is writable, connection_error() gives the result. Empty if it fails at once;
/// then errno is set.
[[nodiscard]] Fd begin_connection(const Endpoint& to);
/// 0 if the connection is established, else its errno.
[[nodiscard]] int connection_error(const Fd& socket);

/// True if the peer of a socket within this host is a process of this user.
[[nodiscard]] bool is_own_users(const Fd& local_socket);

// Calls with a deadline.

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

/// The numeric addresses of `host`, in the order to try; empty if resolving takes until the deadline.
[[nodiscard]] std::vector<std::string> addresses_of(const std::string& host, Deadline deadline);

}  // namespace mn
