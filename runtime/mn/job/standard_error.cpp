#include <mn/job/standard_error.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace mn {
namespace {

constexpr int kWriteTime_ms = 1000;

std::atomic<int> stderr_of_ours = STDERR_FILENO;

}  // namespace

void write_stderr(std::string_view line) noexcept {
  const int fd = stderr_of_ours;
  while (!line.empty()) {
    // A pipe that poll() reports as ready takes PIPE_BUF bytes at once, but a larger write could block forever.
    pollfd ready = {fd, POLLOUT, 0};
    const int count = poll(&ready, 1, kWriteTime_ms);
    if (count < 0 && errno == EINTR) continue;
    if (count != 1) return;
    const ssize_t written = write(fd, line.data(), std::min<std::size_t>(line.size(), PIPE_BUF));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

void wait_until_shown() noexcept {
  constexpr timespec kDelayedAcknowledgment{0, 250'000'000};
  nanosleep(&kDelayedAcknowledgment, nullptr);
}

void silence_stderr() noexcept {
  static std::atomic_flag silent;
  if (silent.test_and_set()) return;
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (null < 0 || copy < 0) return;  // no file descriptor is free; MPI's pages of text are better than no line at all
  stderr_of_ours = copy;
  dup2(null, STDERR_FILENO);
}

void restore_stderr() noexcept {
  if (stderr_of_ours != STDERR_FILENO) dup2(stderr_of_ours, STDERR_FILENO);
}

}  // namespace mn
