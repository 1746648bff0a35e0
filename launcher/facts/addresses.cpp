#include "facts/addresses.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/fd.hpp>

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
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<std::uint16_t>(port));
  const int yes = 1;  // as servers do: a port whose last connections linger is free
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 && listen(socket.get(), 1) == 0;
}

}  // namespace mn::launcher
