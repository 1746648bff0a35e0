#include "exchange/probe.hpp"

#include <cerrno>
#include <cstring>

#include <poll.h>

namespace mn::launcher {

std::vector<std::string> probe(const std::vector<Endpoint>& endpoints, std::chrono::milliseconds patience) {
  const Deadline deadline = Clock::now() + patience;
  std::vector<std::string> failures(endpoints.size(), "no answer in " + std::to_string(patience.count()) + " ms");
  std::vector<Fd> sockets;
  std::vector<pollfd> entries;
  std::size_t under_way = 0;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    sockets.push_back(begin_connection(endpoints[i]));
    if (!sockets[i]) failures[i] = std::strerror(errno);
    if (sockets[i]) ++under_way;
    entries.push_back({sockets[i].get(), POLLOUT, 0});  // poll() skips negative descriptors
  }
  while (under_way > 0) {
    // A process that waited for a CPU polls once more before it judges.
    if (poll(entries.data(), entries.size(), milliseconds_until(deadline)) == 0) break;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].fd < 0 || entries[i].revents == 0) continue;
      const int error = connection_error(sockets[i]);
      failures[i] = error == 0 ? "" : std::strerror(error);
      entries[i].fd = -1;
      --under_way;
    }
  }
  return failures;
}

}  // namespace mn::launcher
