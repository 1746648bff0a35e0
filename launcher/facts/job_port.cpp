#include "facts/job_port.hpp"

#include <cstdint>
#include <string>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/net/socket.hpp>

namespace mn::launcher {
namespace {

// Below Linux's default range for outgoing connections (32768-60999), so that none of them can take the port.
constexpr int kFirstPort = 20000;
constexpr int kPorts = 12000;
constexpr int kLowestPort = 8000;  ///< where others have all of those

}  // namespace

int port_of_job(std::string_view job) { return kFirstPort + static_cast<int>(hash64(job) % kPorts); }

int free_port_of_job(std::string_view job, const std::function<bool(int)>& is_free) {
  const int first = port_of_job(job);
  for (int tried = 0; tried < kPorts; ++tried) {
    const int port = kFirstPort + (first - kFirstPort + tried) % kPorts;
    if (is_free(port)) return port;
  }
  for (int port = kFirstPort - 1; port >= kLowestPort; --port) {
    if (is_free(port)) return port;
  }
  throw CommError("no TCP port from " + std::to_string(kLowestPort) + " to " + std::to_string(kFirstPort + kPorts - 1) +
                  " is free on this host, so there is none for MASTER_PORT");
}

bool is_free_port(int port) { return static_cast<bool>(listen_on_port(static_cast<std::uint16_t>(port))); }

}  // namespace mn::launcher
