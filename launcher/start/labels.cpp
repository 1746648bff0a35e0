#include "start/labels.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/error.hpp>

#include "place/processes.hpp"

namespace mn::launcher {
namespace {

using Clock = std::chrono::steady_clock;

// A descendant of the program may hold its streams open for longer than the program lives.
constexpr std::chrono::milliseconds kSilenceAfterEnd{2000};
constexpr int kPollMs = 100;
constexpr std::array kPassedOn = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

volatile std::sig_atomic_t program_pid = 0;
volatile std::sig_atomic_t launcher_pid = -1;

/// A terminal, whose signals come from the kernel, and a rank's launcher send their signals to the program too.
void pass_on(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  if (info->si_code <= 0 && info->si_pid != launcher_pid) kill(static_cast<pid_t>(program_pid), signal);
  errno = saved_errno;
}

/// Nobody may read any more: then it is lost.
void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t bytes = write(file, text.data(), text.size());
    if (bytes < 0 && errno != EINTR) return;
    if (bytes > 0) text.remove_prefix(static_cast<std::size_t>(bytes));
  }
}

/// One of the program's streams.
class Stream {
 public:
  Stream(int from, int to, const std::string& label) : from_(from), to_(to), label_(label) {}

  [[nodiscard]] int file() const noexcept { return from_; }  ///< negative: it has ended
  /// Passes on what there is.
  void pump() {
    std::array<char, 1 << 16> piece;
    const ssize_t bytes = read(from_, piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR) return;
    if (bytes <= 0) {
      end();
      return;
    }
    rest_.append(piece.data(), static_cast<std::size_t>(bytes));
    write_lines();
  }
  void end() {
    if (from_ < 0) return;
    if (!rest_.empty()) write_all(to_, label_ + rest_ + "\n");
    close(from_);
    from_ = -1;
  }

 private:
  void write_lines() {
    constexpr std::size_t kMaxBytes = 1 << 16;
    std::string text;
    std::size_t begin = 0;
    while (true) {
      std::size_t end = rest_.find_first_of("\n\r", begin);
      if (end == std::string::npos || (rest_[end] == '\r' && end + 1 == rest_.size())) break;  // \n may follow
      if (rest_[end] == '\r' && rest_[end + 1] == '\n') ++end;
      text += label_ + rest_.substr(begin, end + 1 - begin);
      begin = end + 1;
    }
    rest_.erase(0, begin);
    if (rest_.size() >= kMaxBytes) text += label_ + std::exchange(rest_, {}) + "\n";
    write_all(to_, text);
  }

  int from_;
  int to_;
  const std::string& label_;
  std::string rest_;  ///< a line that has not ended
};

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(with_errno("--label: cannot make a pipe", errno));
  return {ends[0], ends[1]};
}

void pass_signals_on(pid_t program, bool is_launched) {
  program_pid = program;
  if (is_launched) launcher_pid = process_above_group();
  struct sigaction action {};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : kPassedOn) sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

/// Copies until both streams have ended; returns the program's wait status.
int copy_until_end(pid_t program, std::array<Stream, 2>& streams) {
  int status = 0;
  bool ended = false;
  auto last = Clock::now();
  while (streams[0].file() >= 0 || streams[1].file() >= 0) {
    std::array<pollfd, 2> readable = {pollfd{streams[0].file(), POLLIN, 0}, pollfd{streams[1].file(), POLLIN, 0}};
    const bool any = poll(readable.data(), readable.size(), kPollMs) > 0;
    if (any) last = Clock::now();
    for (std::size_t i = 0; any && i < streams.size(); ++i) {
      if (readable[i].revents != 0) streams[i].pump();
    }
    ended = ended || waitpid(program, &status, WNOHANG) == program;
    if (ended && Clock::now() - last > kSilenceAfterEnd) {
      for (auto& stream : streams) stream.end();
    }
  }
  while (!ended && waitpid(program, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

[[noreturn]] void end_as(int status) {
  if (WIFSIGNALED(status)) {
    const rlimit no_core{0, 0};  // the program has left one
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace

void label_output(const std::string& label, bool is_launched) {
  const Pipe out = make_pipe();
  const Pipe err = make_pipe();
  sigset_t all;
  sigset_t former;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &former);  // until the parent passes them on
  const pid_t parent = getpid();
  const pid_t program = fork();
  if (program < 0) throw Error(with_errno("--label: cannot start a process", errno));
  if (program == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(out.write_end, STDOUT_FILENO);
    dup2(err.write_end, STDERR_FILENO);
    sigprocmask(SIG_SETMASK, &former, nullptr);
    return;
  }
  close(out.write_end);
  close(err.write_end);
  pass_signals_on(program, is_launched);
  sigprocmask(SIG_SETMASK, &former, nullptr);
  std::array<Stream, 2> streams = {Stream(out.read_end, STDOUT_FILENO, label),
                                   Stream(err.read_end, STDERR_FILENO, label)};
  end_as(copy_until_end(program, streams));
}

}  // namespace mn::launcher
