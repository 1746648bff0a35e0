// A signal to all processes of the rank reaches the program anyway; a signal to this process alone must be passed on.
// A witness, a child without work, tells them apart: it gets the signals to all processes.
//
//   this process's handler   notes the signal in a pipe
//   the witness's handler    notes it in the pipe as witnessed
//   the witness              reads the pipe, waits a moment for more notes, and passes on signals without a witness
#include "start/pass_signals.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <mn/core/error.hpp>

#include "place/processes.hpp"

namespace mn::launcher {
namespace {

constexpr std::array kPassedOn = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
constexpr std::chrono::milliseconds kMoment{500};
constexpr int kWitnessed = 0x80;

volatile std::sig_atomic_t program_pid = 0;
volatile std::sig_atomic_t notes = -1;  ///< write end of the pipe
volatile std::sig_atomic_t mark = 0;    ///< kWitnessed in the witness
std::array<struct sigaction, kPassedOn.size()> former_actions;

void note_signal(int signal) {
  const int saved_errno = errno;
  const auto note = static_cast<unsigned char>(signal | mark);
  // Without a witness, a signal that comes twice is better than a lost signal.
  if (write(static_cast<int>(notes), &note, 1) != 1) kill(static_cast<pid_t>(program_pid), signal);
  errno = saved_errno;
}

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kPassedOn.size(); ++i) sigaction(kPassedOn[i], &action, &former_actions[i]);
}

/// All notes within a moment; at least one.
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
  close_from(STDERR_FILENO);  // no reader waits for the end of this process's copies
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

}  // namespace

void pass_signals_on(pid_t program, const sigset_t& mask) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw Error(with_errno("--label: cannot make a pipe", errno));
  fcntl(ends[0], F_SETFL, 0);  // the handlers' end alone never blocks
  program_pid = program;
  notes = ends[1];
  const pid_t parent = getpid();
  if (fork() == 0) be_witness(ends[0], parent, mask);
  close(ends[0]);
  handle_signals();
}

void pass_no_signals() {
  for (std::size_t i = 0; i < kPassedOn.size(); ++i) sigaction(kPassedOn[i], &former_actions[i], nullptr);
}

}  // namespace mn::launcher
