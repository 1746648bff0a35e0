#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/job/socket.hpp>

namespace mn {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& name, const std::string& port, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), port.empty() ? nullptr : port.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

std::string numeric(const sockaddr* address) {
  char text[NI_MAXHOST] = {};
  const socklen_t length = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : std::string();
}

bool is_usable(const ifaddrs& interface) {
  if (interface.ifa_addr == nullptr || (interface.ifa_flags & IFF_UP) == 0) return false;
  if ((interface.ifa_flags & IFF_LOOPBACK) != 0) return false;
  if (interface.ifa_addr->sa_family == AF_INET) return true;
  if (interface.ifa_addr->sa_family != AF_INET6) return false;
  const auto* address = reinterpret_cast<const sockaddr_in6*>(interface.ifa_addr);
  return !IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr);
}

bool is_virtual_bridge(std::string_view interface) {
  constexpr std::string_view kPrefixes[] = {"docker", "virbr", "veth", "br-", "cni", "podman", "lxc"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return interface.starts_with(prefix); });
}

std::vector<std::string> addresses_of_own_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return {};
  std::vector<std::string> addresses;
  const Addresses found = resolve(name, "", 0);
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    addresses.push_back(numeric(each->ai_addr));
  }
  return addresses;
}

int remaining_ms(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));
}

bool ready(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  int result = 0;
  do {
    result = poll(&entry, 1, remaining_ms(deadline));
  } while (result < 0 && errno == EINTR);
  return result > 0;
}

/// Listens on an IPv6 socket that takes IPv4 too; on hosts without IPv6, on an IPv4 one.
Fd bound_socket(bool this_host_only) {
  if (!this_host_only) {
    Fd both(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int off = 0;
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    if (both && setsockopt(both.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
        bind(both.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0) {
      return both;
    }
  }
  Fd plain(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(this_host_only ? INADDR_LOOPBACK : INADDR_ANY);
  if (!plain || bind(plain.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw CommError(with_errno("cannot open a TCP port for the peer monitor", errno));
  }
  return plain;
}

void send_without_delay(const Fd& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // a refusal costs some milliseconds only
}

}  // namespace

std::vector<std::string> local_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  const auto named = addresses_of_own_name();
  std::vector<std::pair<int, std::string>> ranked;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (!is_usable(*each)) continue;
    const std::string address = numeric(each->ifa_addr);
    const bool is_named = std::find(named.begin(), named.end(), address) != named.end();
    ranked.emplace_back(is_virtual_bridge(each->ifa_name) ? 2 : (is_named ? 0 : 1), address);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> addresses;
  for (auto& [order, address] : ranked) addresses.push_back(std::move(address));
  return addresses;
}

Fd listen_on_free_port(bool this_host_only, std::uint16_t& port) {
  Fd listener = bound_socket(this_host_only);
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw CommError(with_errno("cannot listen for the peer monitor", errno));
  }
  port = ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return listener;
}

Fd accept_until(const Fd& listener, Deadline deadline) {
  while (ready(listener.get(), POLLIN, deadline)) {
    Fd connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) continue;  // it went away again
    send_without_delay(connection);
    return connection;
  }
  return {};
}

Fd connect_until(const std::string& address, std::uint16_t port, Deadline deadline) {
  const Addresses found = resolve(address, std::to_string(port), AI_NUMERICHOST | AI_NUMERICSERV);
  if (!found) return {};
  Fd connection(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection) return {};
  if (connect(connection.get(), found->ai_addr, found->ai_addrlen) != 0) {
    if (errno != EINPROGRESS || !ready(connection.get(), POLLOUT, deadline)) return {};
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) return {};
  }
  send_without_delay(connection);
  return connection;
}

bool send_bytes(const Fd& socket, std::span<const std::byte> bytes) {
  return send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
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
