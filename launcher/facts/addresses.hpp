/// Addresses and ports of this host.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace mn::launcher {

struct Interface {
  std::string name;
  std::string address;  ///< IPv4, dotted
  std::string subnet;   ///< 10.0.0.0/24
};

/// Interfaces that are up and lead to other hosts: no loopback, no bridges of containers or virtual machines.
[[nodiscard]] std::vector<Interface> routed_interfaces();

/// The IPv4 addresses that `host` resolves to here; empty if it does not resolve.
[[nodiscard]] std::vector<std::string> resolve(const std::string& host);

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

/// A TCP socket that accepts connections on any free port while it lives, and closes them at once. A thread accepts:
/// the kernel by itself answers no more than somaxconn (128 on older ones), and a job may have more nodes.
class Listener {
 public:
  /// `backlog`: connections that may wait for the thread.
  explicit Listener(int backlog = 4096);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  [[nodiscard]] int port() const noexcept { return port_; }

 private:
  void accept_all() const;

  int socket_ = -1;
  int end_ = -1;  ///< readable: the thread is to end
  int port_ = 0;
  std::thread thread_;  // last: it uses all the others
};

/// Empty if a TCP connection to address:port succeeds in time, else why not.
[[nodiscard]] std::string try_connect(const std::string& address, int port, std::chrono::milliseconds patience);

}  // namespace mn::launcher
