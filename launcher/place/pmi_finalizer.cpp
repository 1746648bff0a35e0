#include "place/pmi_finalizer.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/fd.hpp>

#include "place/processes.hpp"

namespace mn::launcher {
namespace {

constexpr int kServer = 0;   // descriptors of the process that stays behind
constexpr int kProgram = 1;  // far end of the socket pair that replaces the server's socket in the program
constexpr int kEnd = 2;      // readable once the program has ended
constexpr int kHolder = 3;   // readable once the first holder of the connection has ended (first_holder)

int descriptor_of(pid_t process) { return static_cast<int>(syscall(SYS_pidfd_open, process, 0)); }

/// What a descriptor of a process leads to, as "socket:[7]"; empty if it can't be read.
std::string target_of(const std::string& process, int fd) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + process + "/fd/" + std::to_string(fd), error).string();
}

/// This process, or its farthest ancestor with the connection: a script, whose next program may speak, too.
pid_t first_holder(int fd) {
  const std::string server = target_of("self", fd);
  pid_t holder = getpid();
  if (server.empty()) return holder;
  for (pid_t above = getppid(); above > 0 && target_of(std::to_string(above), fd) == server;
       above = parent_process(above)) {
    holder = above;
  }
  return holder;
}

bool send_all(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

/// False at the end of the stream `from`, and if `to` does not take the bytes.
bool pass_on(int from, int to) {
  char bytes[4096];
  const ssize_t size = recv(from, bytes, sizeof bytes, 0);
  if (size < 0 && errno == EINTR) return true;
  return size > 0 && send_all(to, bytes, static_cast<std::size_t>(size));
}

/// Relays between program and server. True once the program and the first holder of the connection have ended without a
/// word. False if the program spoke, itself or through a second mnlaunch, and is gone, or if the server is gone.
bool program_was_silent() {
  pollfd server{kServer, POLLIN, 0}, program{kProgram, POLLIN, 0}, end{kEnd, POLLIN, 0};
  bool has_spoken = false;
  while (true) {
    pollfd entries[] = {server, program, end};  // poll() passes over descriptors below 0
    if (poll(entries, 3, -1) < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    if (entries[1].revents != 0) {
      const bool passed = pass_on(kProgram, kServer);
      has_spoken = has_spoken || passed;
      if (!passed && has_spoken) return false;
      if (!passed) program.fd = server.fd = -1;  // the program has ended, or closed an unknown descriptor
    } else if (entries[0].revents != 0) {
      if (!pass_on(kServer, kProgram)) return false;
    } else if (entries[2].revents != 0) {
      if (!has_spoken && end.fd == kHolder) return true;
      end.fd = has_spoken ? -1 : kHolder;  // another holder of the connection may speak on
    }
  }
}

void finalize() {
  constexpr const char* kFinalize = "cmd=finalize\n";
  constexpr int kPatienceMs = 5000;
  pollfd readable{kServer, POLLIN, 0};
  char answer[64];
  if (send(kServer, kFinalize, std::strlen(kFinalize), MSG_NOSIGNAL) <= 0) return;
  if (poll(&readable, 1, kPatienceMs) == 1) static_cast<void>(recv(kServer, answer, sizeof answer, 0));
}

[[noreturn]] void stay(const std::array<int, 4>& descriptors) {
  // The launcher's signals to the rank's process group are for the program.
  setsid();
  std::array<int, 4> copies{};  // above their final numbers
  for (std::size_t i = 0; i < 4; ++i) copies[i] = fcntl(descriptors[i], F_DUPFD, kHolder + 1);
  for (int i = kServer; i <= kHolder; ++i) dup2(copies[static_cast<std::size_t>(i)], i);
  // Readers wait for the end of the program's output, and leave_pmi_finalizer() for the end of the pipe.
  close_from(kHolder + 1);
  if (program_was_silent()) finalize();
  _exit(0);
}

void wait_for_end_of(int pipe) {
  char none;
  while (read(pipe, &none, 1) < 0 && errno == EINTR) continue;
}

}  // namespace

bool can_leave_pmi_finalizer() { return static_cast<bool>(Fd(descriptor_of(getpid()))); }

void dismiss_pmi_finalizers(int fd) {
  const std::string server = target_of("self", fd);
  if (!server.starts_with("socket:")) return;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t process = 0;
    std::from_chars(name.data(), name.data() + name.size(), process);
    if (process == 0 || process == getpid() || target_of(name, kServer) != server) continue;
    kill(process, SIGKILL);
    constexpr std::chrono::milliseconds kPause{1};
    constexpr int kMaxPauses = 1000;
    for (int i = 0; i < kMaxPauses && target_of(name, kServer) == server; ++i) std::this_thread::sleep_for(kPause);
  }
}

bool leave_pmi_finalizer(int fd) {
  const Fd self(descriptor_of(getpid()));
  const Fd holder(descriptor_of(first_holder(fd)));
  int pipe_ends[2];
  int pair[2];
  if (!self || !holder || pipe2(pipe_ends, O_CLOEXEC) != 0) return false;
  const Fd is_ready(pipe_ends[0]);
  Fd stays(pipe_ends[1]);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return false;
  const Fd near(pair[0]);
  const Fd far(pair[1]);
  const pid_t child = fork();
  if (child == 0) {
    if (fork() != 0) _exit(0);  // a grandchild: the program must not find an unknown child
    stay({fd, near.get(), self.get(), holder.get()});
  }
  stays.reset();
  if (child < 0 || waitpid(child, nullptr, 0) != child) return false;
  wait_for_end_of(is_ready.get());  // there the server's connection is open before it closes here
  return dup2(far.get(), fd) == fd;
}

}  // namespace mn::launcher
