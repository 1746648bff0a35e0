#include <mn/core/net/socket.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <thread>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <mn/core/error.hpp>

namespace mn {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList look_up(const std::string& host, const char* port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port, &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

std::vector<std::string> numeric_addresses(const std::string& host, int flags = 0) {
  std::vector<std::string> addresses;
  const AddressList found = look_up(host, nullptr, flags);
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    char text[NI_MAXHOST] = {};
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::ranges::find(addresses, text) == addresses.end()) addresses.emplace_back(text);
  }
  return addresses;
}

Fd new_socket(int family) { return Fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

bool bind_to(const Fd& listener, const sockaddr* address, socklen_t length, bool is_named) {
  // A given port may be reused while connections of its last owner are still closing. If the kernel chooses the port,
  // reuse is off, because two processes might get the same port and would notice this only in listen().
  const int reuse = is_named ? 1 : 0;
  return listener && setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) == 0 &&
         bind(listener.get(), address, length) == 0;
}

/// Binds an IPv6 socket to the port; it accepts IPv4, too. Without IPv6, and for Reach::kThisHost, binds an IPv4
/// socket.
bool bind_to_port(Fd& listener, std::uint16_t port, Reach reach) {
  if (reach == Reach::kAllHosts) {
    const int off = 0;
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(port);
    listener = new_socket(AF_INET6);
    if (listener && setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) {
      if (bind_to(listener, reinterpret_cast<const sockaddr*>(&any), sizeof any, port != 0)) return true;
      if (errno == EADDRINUSE) return false;
    }
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(reach == Reach::kThisHost ? INADDR_LOOPBACK : INADDR_ANY);
  listener = new_socket(AF_INET);
  return bind_to(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address, port != 0);
}

/// Writes the abstract socket name of `address` ("@NAME") to `to`. Returns the length of the socket address.
socklen_t fill_name(sockaddr_un& to, const std::string& address) {
  to.sun_family = AF_UNIX;
  const std::size_t length = std::min(address.size(), sizeof to.sun_path);
  std::memcpy(to.sun_path, address.data(), length);
  to.sun_path[0] = '\0';
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
}

bool ready(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  int result = 0;
  do {
    result = poll(&entry, 1, milliseconds_until(deadline));
  } while (result < 0 && errno == EINTR);
  return result > 0;
}

/// Calls move() with the rest of `bytes` until all bytes are moved. move() returns the number of bytes sent or
/// received, or -1. False after an error, or at the deadline.
template <class Byte, class Move>
bool move_until(const Fd& socket, short events, std::span<Byte> bytes, Deadline deadline, const Move& move) {
  while (!bytes.empty()) {
    if (!ready(socket.get(), events, deadline)) return false;
    const ssize_t moved = move(bytes);
    if (moved < 0 && errno != EINTR && errno != EAGAIN) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(moved, 0)));
  }
  return true;
}

Fd begin(int family, const sockaddr* to, socklen_t length) {
  Fd connection = new_socket(family);
  if (!connection) return {};
  if (connect(connection.get(), to, length) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    connection.reset();
    errno = error;
  }
  return connection;
}

}  // namespace

std::string to_text(const Endpoint& endpoint) {
  return endpoint.address.starts_with('@') ? endpoint.address
                                           : endpoint.address + " port " + std::to_string(endpoint.port);
}

Fd listen_on_port(std::uint16_t port, Reach reach) {
  Fd listener;
  if (bind_to_port(listener, port, reach) && listen(listener.get(), SOMAXCONN) == 0) return listener;
  if (errno != EADDRINUSE) throw CommError(with_errno("cannot listen on TCP port " + std::to_string(port), errno));
  return {};
}

Fd listen_on_name(const std::string& name) {
  Fd listener = new_socket(AF_UNIX);
  sockaddr_un address{};
  const socklen_t length = fill_name(address, "@" + name);
  if (listener && bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      listen(listener.get(), SOMAXCONN) == 0) {
    return listener;
  }
  if (errno != EADDRINUSE) throw CommError(with_errno("cannot listen for the ranks of this node", errno));
  return {};
}

std::uint16_t port_of(const Fd& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw CommError(with_errno("cannot read the port of a listening socket", errno));
  }
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Fd accept_waiting(const Fd& listener) {
  Fd connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int on = 1;
  if (connection) {
    setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // has no effect on a Unix socket
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    // No file descriptor is free, so the connection stays in the listener's queue. Without this pause, poll(2) on the
    // listener would return at once, again and again.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return connection;
}

Fd begin_connection(const Endpoint& to) {
  if (to.address.starts_with('@')) {
    sockaddr_un name{};
    const socklen_t length = fill_name(name, to.address);
    return begin(AF_UNIX, reinterpret_cast<const sockaddr*>(&name), length);
  }
  const AddressList found = look_up(to.address, std::to_string(to.port).c_str(), AI_NUMERICHOST | AI_NUMERICSERV);
  if (!found) {
    errno = EADDRNOTAVAIL;
    return {};
  }
  Fd connection = begin(found->ai_family, found->ai_addr, found->ai_addrlen);
  const int error = errno;
  const int on = 1;
  if (connection) setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  errno = error;
  return connection;
}

int connection_error(const Fd& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

bool is_own_users(const Fd& local_socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(local_socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

Fd accept_until(const Fd& listener, Deadline deadline) {
  while (ready(listener.get(), POLLIN, deadline)) {
    Fd connection = accept_waiting(listener);
    if (connection) return connection;
    if (Clock::now() >= deadline) break;  // the caller went away, or no descriptor is free
  }
  return {};
}

Fd connect_until(const std::string& address, std::uint16_t port, Deadline deadline) {
  Fd connection = begin_connection({address, port});
  const bool is_decided = connection && ready(connection.get(), POLLOUT, deadline);
  return is_decided && connection_error(connection) == 0 ? std::move(connection) : Fd();
}

bool send_bytes(const Fd& socket, std::span<const std::byte> bytes) {
  return send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

bool send_until(const Fd& socket, std::span<const std::byte> bytes, Deadline deadline) {
  return move_until(socket, POLLOUT, bytes, deadline, [&](std::span<const std::byte> rest) {
    return send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

bool receive_until(const Fd& socket, std::span<std::byte> bytes, Deadline deadline) {
  return move_until(socket, POLLIN, bytes, deadline, [&](std::span<std::byte> rest) {
    const ssize_t got = recv(socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (got == 0) errno = ECONNRESET;  // the other end is gone
    return got > 0 ? got : -1;
  });
}

std::vector<std::string> addresses_of(const std::string& host, Deadline deadline) {
  if (auto numeric = numeric_addresses(host, AI_NUMERICHOST); !numeric.empty()) return numeric;
  // getaddrinfo() has no time-out, so it runs on a separate thread. If this thread hangs, it ends with the process.
  auto answer = std::make_shared<std::promise<std::vector<std::string>>>();
  auto addresses = answer->get_future();
  std::thread([answer, host] { answer->set_value(numeric_addresses(host)); }).detach();
  return addresses.wait_until(deadline) == std::future_status::ready ? addresses.get() : std::vector<std::string>{};
}

}  // namespace mn
