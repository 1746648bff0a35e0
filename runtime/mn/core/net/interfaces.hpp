/// Network interfaces and addresses of this host.
#pragma once

#include <string>
#include <vector>

namespace mn {

struct Interface {
  std::string name;
  std::string address;      ///< numeric IPv4 or IPv6
  std::string subnet;       ///< for example 10.0.0.0/24 or 2001:db8::/64
  bool is_virtual = false;  ///< a bridge of containers or virtual machines, without a route to other hosts
};

/// The interfaces that are up, in the kernel's order, with one entry for each address. Loopback and link-local
/// addresses (for example fe80::1) are left out. Empty if the kernel reports no list.
[[nodiscard]] std::vector<Interface> interfaces_of_this_host();

/// The interfaces with a route to other hosts. Virtual interfaces are left out. IPv4 addresses come first.
[[nodiscard]] std::vector<Interface> routed_interfaces();

/// The addresses to which this host resolves its own name, IPv4 first. Empty if this takes over two seconds. Resolved
/// only once in a process.
[[nodiscard]] const std::vector<std::string>& addresses_of_own_name();

/// The address at which other hosts reach this host: the first address in `resolved` that an interface has, else the
/// first interface's address, or 127.0.0.1 if there is no interface.
[[nodiscard]] std::string own_address(const std::vector<Interface>& interfaces,
                                      const std::vector<std::string>& resolved);

/// The name of the interface that has the address `address` (numeric IPv4 or IPv6) or a route to it. Empty if the
/// address is a loopback address, or if there is no route. Sends no packet.
[[nodiscard]] std::string interface_toward(const std::string& address);

/// True if `name` is the host's name or address, or resolves to the host's address within two seconds.
[[nodiscard]] bool is_own_host(const std::string& name);

/// The addresses of all interfaces: first those to which this host's name resolves, last those of virtual interfaces.
[[nodiscard]] std::vector<std::string> local_addresses();

}  // namespace mn
