/// Network interfaces and addresses of this host.
#pragma once

#include <string>
#include <vector>

namespace mn {

struct Interface {
  std::string name;
  std::string address;      ///< numeric IPv4 or IPv6
  std::string subnet;       ///< 10.0.0.0/24, 2001:db8::/64
  bool is_virtual = false;  ///< a bridge of containers or virtual machines, without a route to other hosts
};

/// Interfaces that are up, one entry per address, in the kernel's order. Without loopback and link-local addresses
/// (fe80::1). Empty if the kernel reports no list.
[[nodiscard]] std::vector<Interface> interfaces_of_this_host();

/// Interfaces with a route to other hosts: without virtual ones, IPv4 addresses first.
[[nodiscard]] std::vector<Interface> routed_interfaces();

/// The addresses of the host's own name, resolved here, IPv4 first; empty if resolving takes over two seconds. Resolved
/// once.
[[nodiscard]] const std::vector<std::string>& addresses_of_own_name();

/// The address for other hosts: the first of `resolved` that an interface has, else the first interface's address, else
/// 127.0.0.1.
[[nodiscard]] std::string own_address(const std::vector<Interface>& interfaces,
                                      const std::vector<std::string>& resolved);

/// Name of the interface with a route to `address` (numeric IPv4 or IPv6), or with that address; empty for loopback and
/// without a route. Sends nothing.
[[nodiscard]] std::string interface_toward(const std::string& address);

/// True if `name` is the host's name or address, or resolves to the host's address within two seconds.
[[nodiscard]] bool is_own_host(const std::string& name);

/// The addresses of all interfaces. First the addresses of this host's name, last the addresses of virtual interfaces.
[[nodiscard]] std::vector<std::string> local_addresses();

}  // namespace mn
