#include "start/labels.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>
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

// How signals reach the program. A signal to all processes of the rank reaches the program directly; a signal to this
// process alone must be passed on. To tell the two apart, this process forks a child, the witness, which gets only
// signals to all processes of the rank.
//
//   this process's handler   writes a note, the number of the signal, to a pipe
//   the witness's handler    writes the note with the mark kWitnessed to the pipe
//   the witness              reads the notes of half a second, and passes on each signal that has no marked note

constexpr std::array kPassedOn = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
constexpr std::chrono::milliseconds kMoment{500};
constexpr int kWitnessed = 0x80;

volatile std::sig_atomic_t program_pid = 0;
volatile std::sig_atomic_t notes = -1;  ///< write end of the pipe
volatile std::sig_atomic_t mark = 0;    ///< added to notes: kWitnessed in the witness, else 0
std::array<struct sigaction, kPassedOn.size()> former_actions;

void note_signal(int signal) {
  const int saved_errno = errno;
  const auto note = static_cast<unsigned char>(signal | mark);
  // The program may get the signal twice: better than a lost signal.
  if (write(static_cast<int>(notes), &note, 1) != 1) kill(static_cast<pid_t>(program_pid), signal);
  errno = saved_errno;
}

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kPassedOn.size(); ++i) sigaction(kPassedOn[i], &action, &former_actions[i]);
}

/// Waits for a note in the pipe. Returns it with all notes of the next half second.
std::string notes_of_a_moment(int pipe) {
  std::string bytes(4096, '\0');
  while (read(pipe, bytes.data(), 1) < 0 && errno == EINTR) continue;
  std::this_thread::sleep_for(kMoment);
  pollfd readable{pipe, POLLIN, 0};
  const ssize_t more = poll(&readable, 1, 0) == 1 ? read(pipe, bytes.data() + 1, bytes.size() - 1) : 0;
  bytes.resize(1 + static_cast<std::size_t>(more > 0 ? more : 0));
  return bytes;
}

[[noreturn]] void be_witness(int pipe, pid_t parent, const sigset_t& mask) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  dup2(pipe, STDIN_FILENO);
  dup2(static_cast<int>(notes), STDOUT_FILENO);
  close_from(STDERR_FILENO);  // a copy of a pipe here would keep the pipe's reader waiting
  notes = STDOUT_FILENO;
  mark = kWitnessed;
  handle_signals();
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  while (true) {
    const std::string all = notes_of_a_moment(STDIN_FILENO);
    const auto has = [&](int note) { return all.find(static_cast<char>(note)) != std::string::npos; };
    for (const int signal : kPassedOn) {
      if (has(signal) && !has(signal | kWitnessed)) kill(static_cast<pid_t>(program_pid), signal);
    }
  }
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(with_errno("--label: cannot make a pipe", errno));
  return {ends[0], ends[1]};
}

/// Passes signals to this process alone on to `program`. Forks the witness; it blocks only `mask` and ends with this
/// process. The caller has blocked all signals. If the fork fails, signals to all processes reach `program` twice.
void pass_signals_on(pid_t program, const sigset_t& mask) {
  const Pipe pipe = make_pipe();
  fcntl(pipe.write_end, F_SETFL, O_NONBLOCK);  // a signal handler must not wait
  program_pid = program;
  notes = pipe.write_end;
  const pid_t parent = getpid();
  if (fork() == 0) be_witness(pipe.read_end, parent, mask);
  close(pipe.read_end);
  handle_signals();
}

void pass_no_signals() {
  for (std::size_t i = 0; i < kPassedOn.size(); ++i) sigaction(kPassedOn[i], &former_actions[i], nullptr);
}

using Clock = std::chrono::steady_clock;

/// Processes that outlive the program may go on writing, so output is copied for a while after its end.
constexpr std::chrono::milliseconds kMaxAfterEnd{2000};
constexpr int kPollMs = 100;

int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t bytes = write(file, text.data(), text.size());
    if (bytes >= 0) {
      text.remove_prefix(static_cast<std::size_t>(bytes));
    } else if (errno == EAGAIN) {  // `file` is in non-blocking mode
      pollfd writable{file, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// Copies the program's standard output or standard error, with the label before each line.
class Stream {
 public:
  Stream(int from, int to, const std::string& label) : from_(from), to_(to), label_(label) {}

  [[nodiscard]] int file() const noexcept { return from_; }  ///< negative: the stream has ended
  /// Reads once, and writes the complete lines. At the end, also writes a last line without line end.
  void pump() {
    std::array<char, 1 << 16> piece;
    const ssize_t bytes = read(from_, piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR) return;
    if (bytes > 0) {
      rest_.append(piece.data(), static_cast<std::size_t>(bytes));
      write_lines();
    } else {
      if (!rest_.empty()) pass_on(label_ + rest_ + "\n");
      end();
    }
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
    pass_on(text);
  }
  void pass_on(const std::string& text) {
    const int error = write_all(to_, text);
    if (error == EPIPE) end();  // the reader has gone: now the program's next write fails, too
    if (error == 0 || error == EPIPE || std::exchange(has_complained_, true)) return;
    const std::string name = to_ == STDOUT_FILENO ? "output" : "error";
    write_all(STDERR_FILENO,
              label_ + with_errno("mnlaunch: --label: cannot write standard " + name, error) + "; lines are lost\n");
  }
  void end() {
    if (from_ >= 0) close(std::exchange(from_, -1));
  }

  int from_;
  int to_;
  const std::string& label_;
  std::string rest_;  ///< text after the last line end
  bool has_complained_ = false;
};
using Streams = std::array<Stream, 2>;

bool are_open(const Streams& streams) { return streams[0].file() >= 0 || streams[1].file() >= 0; }

/// Copies text from the streams. Returns false if no text came within `milliseconds` (-1: no limit).
bool copy_for(int milliseconds, Streams& streams) {
  std::array<pollfd, 2> readable = {pollfd{streams[0].file(), POLLIN, 0}, pollfd{streams[1].file(), POLLIN, 0}};
  if (poll(readable.data(), readable.size(), milliseconds) <= 0) return false;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (readable[i].revents != 0) streams[i].pump();
  }
  return true;
}

/// Copies output until the program has ended; then copies the rest of the pipes, for at most kMaxAfterEnd.
void copy_until_end(pid_t program, Streams& streams) {
  siginfo_t ended{};
  while (ended.si_pid == 0) {
    copy_for(kPollMs, streams);
    waitid(P_PID, static_cast<id_t>(program), &ended, WEXITED | WNOHANG | WNOWAIT);
  }
  for (const auto begin = Clock::now(); copy_for(0, streams) && Clock::now() < begin + kMaxAfterEnd;) continue;
}

/// For processes that outlive the program: forks a process that copies the output until the streams are closed.
void leave_copier(Streams& streams) {
  if (!are_open(streams) || fork() != 0) return;
  pass_no_signals();
  while (are_open(streams)) copy_for(-1, streams);
  _exit(0);
}

[[noreturn]] void end_as(pid_t program) {
  int status = 0;
  while (waitpid(program, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) {
    const rlimit no_core{0, 0};  // the program has dumped its core; this process must not
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace

void label_output(const std::string& label) {
  const Pipe out = make_pipe();
  const Pipe err = make_pipe();
  sigset_t all;
  sigset_t former;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &former);  // until the parent can pass signals on
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
  pass_signals_on(program, former);
  std::signal(SIGPIPE, SIG_IGN);
  sigprocmask(SIG_SETMASK, &former, nullptr);
  Streams streams = {Stream(out.read_end, STDOUT_FILENO, label), Stream(err.read_end, STDERR_FILENO, label)};
  copy_until_end(program, streams);
  leave_copier(streams);
  end_as(program);
}

}  // namespace mn::launcher
