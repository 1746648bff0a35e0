#include "place/pmi_finalizer.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/fd.hpp>

namespace mn::launcher {
namespace {

constexpr int kServer = 0;   // descriptors of the process that stays
constexpr int kProgram = 1;  // readable once the program has ended

int descriptor_of_this_process() { return static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)); }

/// From now on the kernel notes in a pending SIGIO that something came on the socket, whoever reads it.
void watch_answers() {
  sigset_t io;
  sigemptyset(&io);
  sigaddset(&io, SIGIO);
  sigprocmask(SIG_BLOCK, &io, nullptr);
  fcntl(kServer, F_SETOWN, getpid());
  fcntl(kServer, F_SETFL, fcntl(kServer, F_GETFL) | O_ASYNC);
}

bool has_come(int signal) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

/// True if the program ended; false if the server has closed the connection, after the program's own finalize.
bool outlives_server_connection() {
  while (true) {
    pollfd entries[] = {{kProgram, POLLIN, 0}, {kServer, 0, 0}};
    if (poll(entries, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    if ((entries[1].revents & (POLLHUP | POLLERR)) != 0) return false;
    if (entries[0].revents != 0) return true;
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

/// Others wait for the end of this process's output, and one for the sign that it is ready.
void close_all_others() {
  constexpr unsigned kFirst = 2;
  if (close_range(kFirst, ~0U, 0) == 0) return;
  for (int fd = kFirst; fd < 1024; ++fd) close(fd);  // before Linux 5.9
}

[[noreturn]] void stay(int fd, int program) {
  setsid();
  dup2(fd, kServer);
  dup2(program, kProgram);
  watch_answers();
  close_all_others();
  if (outlives_server_connection() && !has_come(SIGIO)) finalize();
  _exit(0);
}

void wait_for_end_of(int pipe) {
  char none;
  while (read(pipe, &none, 1) < 0 && errno == EINTR) continue;
}

}  // namespace

bool can_leave_pmi_finalizer() { return static_cast<bool>(Fd(descriptor_of_this_process())); }

bool leave_pmi_finalizer(int fd) {
  const Fd self(descriptor_of_this_process());
  int ends[2];
  if (!self || pipe2(ends, O_CLOEXEC) != 0) return false;
  const Fd is_ready(ends[0]);
  Fd stays(ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    if (fork() != 0) _exit(0);  // a grandchild: the program must not find a child that it did not start
    stay(fd, self.get());
  }
  stays.reset();
  if (child < 0 || waitpid(child, nullptr, 0) != child) return false;
  wait_for_end_of(is_ready.get());  // the program must not speak before somebody listens
  return true;
}

}  // namespace mn::launcher
