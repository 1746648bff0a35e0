#include <mn/core/net/timed_socket.hpp>

#include <cerrno>

#include <poll.h>
#include <sys/socket.h>

#include <mn/core/net/socket.hpp>

namespace mn {
namespace {

bool ready(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  int result = 0;
  do {
    result = poll(&entry, 1, milliseconds_until(deadline));
  } while (result < 0 && errno == EINTR);
  return result > 0;
}

}  // namespace

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
  while (!bytes.empty()) {
    if (!ready(socket.get(), POLLOUT, deadline)) return false;
    const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_until(const Fd& socket, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (!ready(socket.get(), POLLIN, deadline)) return false;
    const ssize_t got = recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) {
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace mn
