#include "facts/job_port.hpp"

#include <cstdint>
#include <string>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/net/socket.hpp>

namespace mn::launcher {

int port_of_job(std::string_view job, std::span<const PortRange> ranges) { return ranges.front().choose(hash64(job)); }

int free_port_of_job(std::string_view job, std::span<const PortRange> ranges, const std::function<bool(int)>& is_free) {
  std::string tried;
  for (const auto& range : ranges) {
    for (int further = 0; further <= range.last - range.first; ++further) {
      const int port = range.choose(hash64(job), further);
      if (is_free(port)) return port;
    }
    tried += (tried.empty() ? "" : " and ") + to_text(range);
  }
  throw CommError("none of the TCP ports " + tried +
                  " is free on this host, so that there is none for MASTER_PORT; give others with --ports");
}

bool is_free_port(int port) { return static_cast<bool>(listen_on_port(static_cast<std::uint16_t>(port))); }

}  // namespace mn::launcher
