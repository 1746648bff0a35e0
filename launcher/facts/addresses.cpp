#include "facts/addresses.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>

namespace mn::launcher {
namespace {

// Below Linux's default range for outgoing connections (32768-60999), so that none of them can take the port.
constexpr int kFirstPort = 20000;
constexpr int kPorts = 12000;

std::string dotted(in_addr address) {
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address, text, sizeof text);
  return text;
}

in_addr address_of(const sockaddr* socket) {
  sockaddr_in internet;
  std::memcpy(&internet, socket, sizeof internet);
  return internet.sin_addr;
}

std::string subnet_of(in_addr address, in_addr mask) {
  const in_addr network{address.s_addr & mask.s_addr};
  return dotted(network) + "/" + std::to_string(std::popcount(mask.s_addr));
}

bool is_virtual(const std::string& name) {
  constexpr const char* kPrefixes[] = {"docker", "virbr", "veth", "br-", "cni", "flannel", "lxc", "vnet", "podman"};
  return std::ranges::any_of(kPrefixes, [&](const char* prefix) { return name.starts_with(prefix); });
}

sockaddr_in endpoint(const std::string& address, int port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) throw ArgumentError("not an IPv4 address: " + address);
  return to;
}

/// Closes at the end of a scope.
struct Socket {
  int fd;
  ~Socket() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

std::vector<Interface> routed_interfaces() {
  std::vector<Interface> interfaces;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool usable = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
                        (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || is_virtual(entry->ifa_name)) continue;
    const in_addr address = address_of(entry->ifa_addr);
    const in_addr mask = entry->ifa_netmask == nullptr ? in_addr{0xffffffff} : address_of(entry->ifa_netmask);
    interfaces.push_back({entry->ifa_name, dotted(address), subnet_of(address, mask)});
  }
  freeifaddrs(list);
  return interfaces;
}

std::vector<std::string> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  std::vector<std::string> addresses;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    addresses.push_back(dotted(address_of(entry->ai_addr)));
  }
  freeaddrinfo(list);
  return addresses;
}

std::string own_address(const std::vector<Interface>& interfaces, const std::vector<std::string>& resolved) {
  for (const auto& address : resolved) {
    if (std::ranges::find(interfaces, address, &Interface::address) != interfaces.end()) return address;
  }
  return interfaces.empty() ? "127.0.0.1" : interfaces.front().address;
}

int port_of_job(std::string_view job) { return kFirstPort + static_cast<int>(hash64(job) % kPorts); }

int free_port_of_job(std::string_view job, const std::function<bool(int)>& is_free) {
  const int first = port_of_job(job);
  for (int tried = 0; tried < kPorts; ++tried) {
    const int port = kFirstPort + (first - kFirstPort + tried) % kPorts;
    if (is_free(port)) return port;
  }
  throw CommError("no TCP port from " + std::to_string(kFirstPort) + " to " + std::to_string(kFirstPort + kPorts - 1) +
                  " is free on this host, so there is none for MASTER_PORT");
}

bool is_free_port(int port) {
  const Socket socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const sockaddr_in any = endpoint("0.0.0.0", port);
  const int yes = 1;  // as servers do: a port whose last connections linger is free
  setsockopt(socket.fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  return bind(socket.fd, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 && listen(socket.fd, 1) == 0;
}

Listener::Listener(int backlog)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), end_(eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in any = endpoint("0.0.0.0", 0);
  socklen_t length = sizeof any;
  auto* address = reinterpret_cast<sockaddr*>(&any);
  if (end_ < 0 || bind(socket_, address, length) != 0 || listen(socket_, backlog) != 0 ||
      getsockname(socket_, address, &length) != 0) {
    const int error = errno;
    close(socket_);
    close(end_);
    throw CommError(with_errno("cannot listen on a TCP port of this host", error));
  }
  port_ = ntohs(any.sin_port);
  thread_ = std::thread([this] { accept_all(); });
}

Listener::~Listener() {
  eventfd_write(end_, 1);
  thread_.join();
  close(socket_);
  close(end_);
}

void Listener::accept_all() const {
  pollfd readable[] = {{socket_, POLLIN, 0}, {end_, POLLIN, 0}};
  while (readable[1].revents == 0) {
    if (poll(readable, 2, -1) < 0) continue;
    for (int peer = 0; (peer = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) close(peer);
  }
}

std::string try_connect(const std::string& address, int port, std::chrono::milliseconds patience) {
  const Socket socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const sockaddr_in to = endpoint(address, port);
  if (connect(socket.fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return "";
  if (errno != EINPROGRESS) return std::strerror(errno);
  pollfd writable{socket.fd, POLLOUT, 0};
  if (poll(&writable, 1, static_cast<int>(patience.count())) == 0) {
    return "no answer in " + std::to_string(patience.count()) + " ms";
  }
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? "" : std::strerror(error);
}

}  // namespace mn::launcher
