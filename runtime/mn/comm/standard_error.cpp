#include <atomic>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <mn/comm/standard_error.hpp>

namespace mn {
namespace {

constexpr int kWriteTime_ms = 1000;

std::atomic<int> stderr_of_ours = STDERR_FILENO;

}  // namespace

void write_stderr(std::string_view line) noexcept {
  const int fd = stderr_of_ours;
  pollfd writable = {fd, POLLOUT, 0};
  if (poll(&writable, 1, kWriteTime_ms) != 1) return;  // the write would wait for ever, and with it the job's end
  [[maybe_unused]] const auto written = write(fd, line.data(), line.size());
}

void silence_stderr() noexcept {
  static std::atomic_flag silent;
  if (silent.test_and_set()) return;
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (null < 0 || copy < 0) return;  // no descriptor is free: better a page too much than no line
  stderr_of_ours = copy;
  dup2(null, STDERR_FILENO);
}

}  // namespace mn
