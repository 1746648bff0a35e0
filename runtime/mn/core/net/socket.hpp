/// Sockets that never block and are closed on exec: TCP, and within a node names in Linux's abstract space (unix(7)),
/// which leave no file behind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mn/core/fd.hpp>
#include <mn/core/net/deadline.hpp>

namespace mn {

/// Where a process listens: a numeric address and a port, or "@NAME" within the node.
struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};
[[nodiscard]] std::string to_text(const Endpoint& endpoint);

/// Whom a listener takes connections from.
enum class Reach { kAllHosts, kThisHost };

/// Empty if the port, 0 for any free one, or the name is taken. Throws CommError for other reasons.
[[nodiscard]] Fd listen_on_port(std::uint16_t port, Reach reach = Reach::kAllHosts);
[[nodiscard]] Fd listen_on_name(const std::string& name);

/// The TCP port of a listener. Throws CommError.
[[nodiscard]] std::uint16_t port_of(const Fd& listener);

/// The next connection that waits; empty if there is none, or, after 10 ms, if there is no descriptor for it.
[[nodiscard]] Fd accept_waiting(const Fd& listener);

/// A connection that may still be under way: how it ends, connection_error() tells once the socket is writable. Empty
/// if it failed at once; errno then says why.
[[nodiscard]] Fd begin_connection(const Endpoint& to);
/// 0 if the connection stands, else the errno.
[[nodiscard]] int connection_error(const Fd& socket);

/// Whether a process of this user is at the other end, which must be on this host.
[[nodiscard]] bool is_own_users(const Fd& local_socket);

/// The numeric addresses of `host`, in the order in which to try them; empty if it does not resolve by the deadline.
[[nodiscard]] std::vector<std::string> addresses_of(const std::string& host, Deadline deadline);

}  // namespace mn
