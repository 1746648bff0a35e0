/// Addresses and ports of this host.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mn::launcher {

struct Interface {
  std::string name;
  std::string address;  ///< IPv4 or IPv6, in numbers
  std::string subnet;   ///< 10.0.0.0/24, 2001:db8::/64
};

/// Interfaces that are up and lead to other hosts: no loopback, no bridges of containers or virtual machines. Those
/// with IPv4 addresses first.
[[nodiscard]] std::vector<Interface> routed_interfaces();

/// The addresses that this host's name resolves to here, IPv4 first; empty if it does not resolve within two seconds.
/// Asked once.
[[nodiscard]] const std::vector<std::string>& addresses_of_own_name();

/// The address by which others reach this host: the one that its name resolves to if an interface has it, else the
/// first interface's, else 127.0.0.1.
[[nodiscard]] std::string own_address(const std::vector<Interface>& interfaces,
                                      const std::vector<std::string>& resolved);

/// A port below the range that outgoing connections take, the same wherever `job` is the same.
[[nodiscard]] int port_of_job(std::string_view job);

/// port_of_job, or the next one that is free on this host.
[[nodiscard]] int free_port_of_job(std::string_view job, const std::function<bool(int)>& is_free);
/// Whether a TCP server could listen on `port` of all addresses.
[[nodiscard]] bool is_free_port(int port);

}  // namespace mn::launcher
