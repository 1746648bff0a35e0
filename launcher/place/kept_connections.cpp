#include "place/kept_connections.hpp"

#include <filesystem>
#include <set>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace mn::launcher {
namespace {

/// Never destroyed: libraries shut sockets down at the end of the process, too.
std::set<int>& kept() {
  static auto* const sockets = new std::set<int>;
  return *sockets;
}

std::set<int> connected_sockets() {
  std::set<int> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_storage peer;
    socklen_t length = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0) sockets.insert(fd);
  }
  return sockets;
}

}  // namespace

void keep_connections_of(const std::function<void()>& connect) {
  const std::set<int> others = connected_sockets();
  connect();
  for (const int socket : connected_sockets()) {
    // A duplicate keeps the connection up after the library has closed its own descriptor.
    if (!others.contains(socket) && dup(socket) >= 0) kept().insert(socket);
  }
}

}  // namespace mn::launcher

/// Libraries loaded after mnlaunch call this function instead of libc's: a duplicate keeps a socket from being closed,
/// but not from being shut down.
extern "C" int shutdown(int socket, int how) noexcept {
  if (mn::launcher::kept().contains(socket)) return 0;
  return static_cast<int>(syscall(SYS_shutdown, socket, how));
}
