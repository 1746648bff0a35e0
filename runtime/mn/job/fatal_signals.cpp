#include <mn/job/fatal_signals.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <signal.h>
#include <sys/socket.h>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/job/standard_error.hpp>

namespace mn {
namespace {

constexpr int kTerminations[] = {SIGTERM, SIGINT};
constexpr int kRequest = SIGUSR2;  // not SIGUSR1, which is a scheduler's notice (SignalFlag)

/// A message that is formatted in advance, because signal handlers must not allocate memory.
struct Line {
  char text[512];
  std::size_t length = 0;

  void set(const std::string& line) { length = line.copy(text, sizeof text); }
  void print() const { write_stderr({text, length}); }
};

struct HandlerLink : PeerMonitor::Link {
  Line line;  // the message if this peer is lost
};

struct Fault {
  int signal;
  Line line = {};
  struct sigaction earlier = {};  // the handler that was installed before
};

// Global, because a handler gets only the signal. Written only while no handler is installed.
Fault faults[] = {{SIGSEGV}, {SIGBUS}, {SIGFPE}, {SIGILL}, {SIGABRT}};
std::vector<HandlerLink> handler_links;

void notify_peers(PeerByte byte) {
  for (const HandlerLink& link : handler_links) {
    [[maybe_unused]] const auto sent = send(link.socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

/// Waits until the peers have silenced their stderr: their MPI prints text once this process has ended.
void wait_for_answers() {
  constexpr timespec kPause{0, 1'000'000};
  const auto answered = [](const HandlerLink& link) { return has_answered(link.socket, *link.silent); };
  for (int i = 0; i < kReportPatience.count() && !std::ranges::all_of(handler_links, answered); ++i) {
    nanosleep(&kPause, nullptr);
  }
}

/// True if the connection has ended and the peer has not announced its end before.
bool is_lost(const HandlerLink& link) {
  PeerByte bytes[64];
  while (!link.spoke->load()) {
    const ssize_t got = recv(link.socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0) return true;
    if (got < 0 && errno != EINTR) return errno == ECONNRESET;
    for (ssize_t i = 0; i < got; ++i) {
      if (bytes[i] != PeerByte::kHeartbeat && bytes[i] != PeerByte::kLeft) return false;
    }
  }
  return false;
}

bool is_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

/// True if the faulting instruction runs again after the handler and raises the signal again.
bool comes_again(int signal, const siginfo_t& info) {
  return info.si_code > 0 && signal != SIGABRT && !(signal == SIGBUS && info.si_code == BUS_MCEERR_AO);
}

/// Passes the signal to the handler that was installed before. If there was no handler, the default action follows.
void hand_on(int signal, const siginfo_t& info) {
  for (const Fault& fault : faults) {
    if (fault.signal != signal || !is_handler(fault.earlier)) continue;
    restore_stderr();
    sigaction(signal, &fault.earlier, nullptr);
  }
  // A signal that does not come again by itself is raised. SA_RESETHAND has restored the default action, and SA_NODEFER
  // leaves the signal unblocked.
  if (!comes_again(signal, info)) raise(signal);
}

void handle_fault(int signal, siginfo_t* info, void* /*context*/) {
  // MPI_Abort calls exit() while threads still run. A fault of such a thread is not the cause of the end.
  const bool is_news = claim_report();
  if (is_news) silence_stderr();
  for (const Fault& fault : faults) {
    if (is_news && fault.signal == signal) fault.line.print();
  }
  notify_peers(PeerByte::kReported);
  write_calls("a signal ends this rank");
  wait_for_answers();
  if (is_news) wait_until_shown();
  hand_on(signal, *info);
}

void handle_termination(int signal) {
  const int saved_errno = errno;
  bool reported = false;
  for (const HandlerLink& link : handler_links) {
    if (!link.reports || !is_lost(link) || !claim_report()) continue;
    link.line.print();
    reported = true;
  }
  notify_peers(PeerByte::kTerminated);
  write_calls("a signal ends this rank");
  if (reported) wait_until_shown();
  errno = saved_errno;
  raise(signal);
}

void handle_request(int /*signal*/) { write_calls("SIGUSR2"); }

void install(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

struct sigaction action_of(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return action;
}

bool has_default_action(int signal) { return action_of(signal).sa_handler == SIG_DFL; }

}  // namespace

void remember_signal_handlers() {
  for (Fault& fault : faults) fault.earlier = action_of(fault.signal);
}

void install_signal_handlers(const Speaker& speaker, const std::vector<PeerMonitor::Link>& links) {
  handler_links.clear();
  for (const PeerMonitor::Link& link : links) {
    handler_links.push_back({link, {}});
    handler_links.back().line.set(speaker.line(link.loss));
  }
  constexpr int kFlags = static_cast<int>(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
  for (Fault& fault : faults) {
    fault.line.set(speaker.line(std::string("killed by SIG") + sigabbrev_np(fault.signal) + " (" +
                                sigdescr_np(fault.signal) + "); all ranks end"));
    struct sigaction action = {};
    action.sa_sigaction = handle_fault;
    action.sa_flags = kFlags | SA_SIGINFO;
    sigaction(fault.signal, &action, nullptr);
  }
  for (const int signal : kTerminations) {
    if (has_default_action(signal)) install(signal, handle_termination, kFlags);
  }
  if (has_default_action(kRequest)) install(kRequest, handle_request, SA_RESTART | SA_ONSTACK);
  // MPI's write to the connection of a lost rank raises SIGPIPE, which must not end the process before its report.
  if (has_default_action(SIGPIPE)) install(SIGPIPE, SIG_IGN, 0);
}

void remove_signal_handlers() {
  for (const Fault& fault : faults) {
    if (action_of(fault.signal).sa_sigaction == handle_fault) sigaction(fault.signal, &fault.earlier, nullptr);
  }
  for (const int signal : kTerminations) {
    if (action_of(signal).sa_handler == handle_termination) install(signal, SIG_DFL, 0);
  }
  // A SIGUSR2 that arrives late must not end the process.
  if (action_of(kRequest).sa_handler == handle_request) install(kRequest, SIG_IGN, 0);
  handler_links.clear();
}

}  // namespace mn
