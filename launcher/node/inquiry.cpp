#include "node/inquiry.hpp"

#include <array>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/error.hpp>

#include "place/processes.hpp"

namespace mn::launcher {
namespace {

constexpr int kDone = 0;

/// Replaces the standard streams and closes the rest: a reader of this process's output must not wait for the child.
int keep_only(int fd) {
  dup2(fd, STDIN_FILENO);
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDOUT_FILENO);
  dup2(null, STDERR_FILENO);
  close_from(STDERR_FILENO + 1);
  return STDIN_FILENO;
}

[[noreturn]] void answer_in_child(int fd, const std::function<std::string()>& question) {
  constexpr int kFailed = 1;
  const int output = keep_only(fd);
  try {
    const std::string text = question() + '\n';
    const auto written = write(output, text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? kDone : kFailed);
  } catch (const std::exception&) {
    _exit(kFailed);
  }
}

}  // namespace

Inquiry::Inquiry(const std::function<std::string()>& question) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(with_errno("cannot open a pipe", errno));
  output_ = Fd(ends[0]);
  const Fd input(ends[1]);
  child_ = fork();
  if (child_ < 0) throw Error(with_errno("cannot fork", errno));
  if (child_ == 0) answer_in_child(input.get(), question);
}

Inquiry::~Inquiry() {
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, WNOHANG);
}

std::optional<std::string> Inquiry::answer(Clock::time_point deadline) {
  std::string text;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd readable{output_.get(), POLLIN, 0};
    const int ready = poll(&readable, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, 4096> piece;
    const ssize_t bytes = read(output_.get(), piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  if (!text.ends_with('\n')) return std::nullopt;  // the child ended before the whole answer
  text.pop_back();
  return text;
}

}  // namespace mn::launcher
