/// Network interfaces and addresses of this host.
#pragma once

#include <string>
#include <vector>

namespace mn {

struct Interface {
  std::string name;
  std::string address;      ///< IPv4 or IPv6, in numbers
  std::string subnet;       ///< 10.0.0.0/24, 2001:db8::/64
  bool is_virtual = false;  ///< a bridge of containers or virtual machines: it leads to no other host
};

/// Interfaces that are up, an entry for each address: no loopback, no addresses that hold on their link alone
/// (fe80::1). In the kernel's order; empty if it does not tell.
[[nodiscard]] std::vector<Interface> interfaces_of_this_host();

/// Those that lead to other hosts: without virtual ones, those with IPv4 addresses first.
[[nodiscard]] std::vector<Interface> routed_interfaces();

/// The addresses that this host's name resolves to here, IPv4 first; empty if it does not resolve within two seconds.
/// Asked once.
[[nodiscard]] const std::vector<std::string>& addresses_of_own_name();

/// The address by which others reach this host: the one that its name resolves to if an interface has it, else the
/// first interface's, else 127.0.0.1.
[[nodiscard]] std::string own_address(const std::vector<Interface>& interfaces,
                                      const std::vector<std::string>& resolved);

/// The name of the interface by which this host reaches `address`, IPv4 or IPv6 in numbers, or which has that address;
/// empty for loopback, and where no route leads there. Sends nothing.
[[nodiscard]] std::string interface_toward(const std::string& address);

/// Whether `name` is that of this host, or an address of it, or leads to one within two seconds.
[[nodiscard]] bool is_own_host(const std::string& name);

/// The address of every interface of this host: those that its name resolves to first, those of virtual ones last.
[[nodiscard]] std::vector<std::string> local_addresses();

}  // namespace mn
