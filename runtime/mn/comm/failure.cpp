#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>
#include <typeinfo>

#include <cxxabi.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mn/comm/failure.hpp>
#include <mn/comm/job.hpp>
#include <mn/comm/mpi.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr int kFatalSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kMostSockets = 64;

// Handlers take no argument and must not allocate: what they need lies ready here.
struct SignalLine {
  char text[512];
  std::size_t length;
};
std::array<SignalLine, std::size(kFatalSignals)> signal_lines;
std::array<int, kMostSockets> farewell_sockets;
std::atomic<int> farewell_count{0};
std::atomic<char> farewell_byte{0};
alignas(64) std::array<std::byte, 64 * 1024> signal_stack;  // a stack overflow leaves no other

Speaker failing_speaker;     // NOLINT: read by the terminate handler alone
FailureHooks failing_hooks;  // NOLINT
std::terminate_handler previous_terminate = nullptr;

void handle_fatal_signal(int signal) {
  for (std::size_t i = 0; i < std::size(kFatalSignals); ++i) {
    if (kFatalSignals[i] != signal) continue;
    [[maybe_unused]] const auto written = write(STDERR_FILENO, signal_lines[i].text, signal_lines[i].length);
  }
  const char byte = farewell_byte.load();
  for (int i = 0; i < farewell_count.load(); ++i) {
    [[maybe_unused]] const auto sent =
        ::send(farewell_sockets[static_cast<std::size_t>(i)], &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  raise(signal);  // SA_RESETHAND has restored the default action, SA_NODEFER lets it through
}

std::string line_of(const Speaker& speaker, const std::string& message) {
  return "mn: rank " + std::to_string(speaker.rank) + " (host " + speaker.host + "): " + message + "\n";
}

struct Outcome {
  std::string message;
  int exit_code = 1;
  bool on_all_ranks = false;
};

std::string type_name(const std::exception& error) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
  return name ? name.get() : "std::exception";
}

Outcome outcome_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
    return {"std::terminate was called without an exception"};
  } catch (const Error& mine) {
    return {mine.what(), mine.exit_code(), mine.on_all_ranks()};
  } catch (const std::exception& other) {
    const std::string what = other.what();  // libtorch's go on with a stack trace
    return {"uncaught " + type_name(other) + ": " + what.substr(0, what.find('\n'))};
  } catch (...) {
    return {"uncaught exception of an unknown type"};
  }
}

[[noreturn]] void leave(int exit_code) {
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

[[noreturn]] void handle_terminate() { fail_job(std::current_exception()); }

}  // namespace

void report(const Speaker& speaker, const std::string& message) {
  const std::string line = line_of(speaker, message);
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

void install_terminate_handler(const Speaker& speaker, FailureHooks hooks) {
  failing_speaker = speaker;
  failing_hooks = std::move(hooks);
  const auto previous = std::set_terminate(handle_terminate);
  if (previous != handle_terminate) previous_terminate = previous;
}

void install_signal_handlers(const Speaker& speaker) {
  for (std::size_t i = 0; i < std::size(kFatalSignals); ++i) {
    const int signal = kFatalSignals[i];
    const std::string line = line_of(
        speaker, std::string("killed by SIG") + sigabbrev_np(signal) + " (" + sigdescr_np(signal) + "); all ranks end");
    signal_lines[i].length = line.copy(signal_lines[i].text, sizeof signal_lines[i].text);
  }
  const stack_t stack{signal_stack.data(), 0, signal_stack.size()};
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_handler = handle_fatal_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
  for (const int signal : kFatalSignals) sigaction(signal, &action, nullptr);
}

void remove_failure_handlers() {
  for (const int signal : kFatalSignals) ::signal(signal, SIG_DFL);
  if (previous_terminate != nullptr) std::set_terminate(std::exchange(previous_terminate, nullptr));
  failing_hooks = {};
}

void set_signal_farewell(const int* sockets, int count, char byte) {
  farewell_count = 0;
  farewell_byte = byte;
  const int kept = std::min(count, kMostSockets);
  std::copy_n(sockets, kept, farewell_sockets.begin());
  farewell_count = kept;
}

void end_all_ranks(int exit_code) {
  std::cout.flush();
  std::fflush(nullptr);
  if (mpi_is_up()) {
    std::thread([exit_code] {
      std::this_thread::sleep_for(std::chrono::seconds(2));
      std::_Exit(exit_code);
    }).detach();
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  std::_Exit(exit_code);
}

void fail_job(std::exception_ptr error) {
  static std::atomic_flag failing;
  if (failing.test_and_set()) {
    while (true) pause();  // another thread reports and ends the process
  }
  const Outcome outcome = outcome_of(error);
  if (outcome.on_all_ranks) {
    const bool orderly = !failing_hooks.all_ranks_agree || failing_hooks.all_ranks_agree();
    if (orderly && failing_speaker.rank != 0) {
      if (failing_hooks.finish) failing_hooks.finish();
      leave(outcome.exit_code);
    }
    if (orderly) {
      report(failing_speaker, outcome.message);
      if (failing_hooks.finish) failing_hooks.finish();
      leave(outcome.exit_code);
    }
  }
  report(failing_speaker, outcome.message);
  if (failing_hooks.tell_peers) failing_hooks.tell_peers();
  end_all_ranks(outcome.exit_code);
}

}  // namespace mn
