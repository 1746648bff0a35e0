#include <mn/core/net/interfaces.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <mn/core/environment.hpp>
#include <mn/core/net/socket.hpp>

namespace mn {
namespace {

/// The bytes of an IPv4 or IPv6 address, padded with zeros.
using Address = std::array<unsigned char, sizeof(in6_addr)>;

Address address_of(const sockaddr* socket) {
  Address address{};
  if (socket->sa_family == AF_INET6) {
    std::memcpy(address.data(), &reinterpret_cast<const sockaddr_in6*>(socket)->sin6_addr, sizeof(in6_addr));
  } else {
    std::memcpy(address.data(), &reinterpret_cast<const sockaddr_in*>(socket)->sin_addr, sizeof(in_addr));
  }
  return address;
}

std::string text_of(int family, const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family, address.data(), text, sizeof text);
  return text;
}

std::string subnet_of(int family, Address address, const Address& mask) {
  int bits = 0;
  for (std::size_t i = 0; i < (family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr)); ++i) {
    address[i] &= mask[i];
    bits += std::popcount(mask[i]);
  }
  return text_of(family, address) + "/" + std::to_string(bits);
}

/// The source address that the kernel would give to datagrams sent to `to`. No value if there is no route.
std::optional<Address> source_toward(const sockaddr* to, socklen_t length) {
  const Fd socket(::socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage from{};
  socklen_t size = sizeof from;
  auto* const source = reinterpret_cast<sockaddr*>(&from);
  // connect() on a datagram socket sends nothing: the kernel only chooses the route.
  if (!socket || connect(socket.get(), to, length) != 0 || getsockname(socket.get(), source, &size) != 0) return {};
  return address_of(source);
}

bool is_virtual_bridge(const std::string& name) {
  constexpr const char* kPrefixes[] = {"docker", "virbr", "veth", "br-", "cni", "flannel", "lxc", "vnet", "podman"};
  return std::ranges::any_of(kPrefixes, [&](const char* prefix) { return name.starts_with(prefix); });
}

/// True if the interface is up and has an address that other hosts can use: neither a loopback address nor a link-local
/// address (for example fe80::1).
bool is_up_beyond_its_link(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0 || (entry.ifa_flags & IFF_LOOPBACK) != 0)
    return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  return entry.ifa_addr->sa_family == AF_INET6 &&
         !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

constexpr std::chrono::seconds kMaxForANameServer{2};

bool is_ipv4(const std::string& address) { return address.find(':') == std::string::npos; }

}  // namespace

std::vector<Interface> interfaces_of_this_host() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!is_up_beyond_its_link(*entry)) continue;
    const int family = entry->ifa_addr->sa_family;
    const Address address = address_of(entry->ifa_addr);
    Address mask;
    mask.fill(0xff);
    if (entry->ifa_netmask != nullptr) mask = address_of(entry->ifa_netmask);
    interfaces.push_back({entry->ifa_name, text_of(family, address), subnet_of(family, address, mask),
                          is_virtual_bridge(entry->ifa_name)});
  }
  return interfaces;
}

std::vector<Interface> routed_interfaces() {
  auto interfaces = interfaces_of_this_host();
  std::erase_if(interfaces, [](const Interface& each) { return each.is_virtual; });
  std::ranges::stable_partition(interfaces, is_ipv4, &Interface::address);
  return interfaces;
}

const std::vector<std::string>& addresses_of_own_name() {
  static const auto addresses = [] {
    auto found = addresses_of(host_name(), Clock::now() + kMaxForANameServer);
    std::ranges::stable_partition(found, is_ipv4);
    return found;
  }();
  return addresses;
}

std::string own_address(const std::vector<Interface>& interfaces, const std::vector<std::string>& resolved) {
  for (const auto& address : resolved) {
    if (std::ranges::find(interfaces, address, &Interface::address) != interfaces.end()) return address;
  }
  return interfaces.empty() ? "127.0.0.1" : interfaces.front().address;
}

std::string interface_toward(const std::string& address) {
  constexpr std::uint16_t kAnyPort = 9;  // any port will do, because connect() sends nothing
  const int family = is_ipv4(address) ? AF_INET : AF_INET6;
  sockaddr_in to4{};
  sockaddr_in6 to6{};
  to4.sin_family = AF_INET;
  to6.sin6_family = AF_INET6;
  to4.sin_port = to6.sin6_port = htons(kAnyPort);
  void* const bytes = family == AF_INET ? static_cast<void*>(&to4.sin_addr) : &to6.sin6_addr;
  if (inet_pton(family, address.c_str(), bytes) != 1) return "";
  const auto source = family == AF_INET ? source_toward(reinterpret_cast<const sockaddr*>(&to4), sizeof to4)
                                        : source_toward(reinterpret_cast<const sockaddr*>(&to6), sizeof to6);
  if (!source) return "";
  const auto interfaces = interfaces_of_this_host();
  const auto found = std::ranges::find(interfaces, text_of(family, *source), &Interface::address);
  return found == interfaces.end() ? "" : found->name;
}

bool is_own_host(const std::string& name) {
  if (name.empty()) return false;
  if (name == "localhost" || name.substr(0, name.find('.')) == host_name()) return true;
  const auto own = interfaces_of_this_host();
  return std::ranges::any_of(addresses_of(name, Clock::now() + kMaxForANameServer), [&](const std::string& address) {
    return address.starts_with("127.") || address == "::1" ||
           std::ranges::find(own, address, &Interface::address) != own.end();
  });
}

std::vector<std::string> local_addresses() {
  const auto& named = addresses_of_own_name();
  const auto order = [&](const Interface& each) {
    if (each.is_virtual) return 2;
    return std::ranges::find(named, each.address) != named.end() ? 0 : 1;
  };
  auto interfaces = interfaces_of_this_host();
  std::ranges::stable_sort(interfaces, {}, order);
  std::vector<std::string> addresses;
  for (auto& each : interfaces) addresses.push_back(std::move(each.address));
  return addresses;
}

}  // namespace mn
