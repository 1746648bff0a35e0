#include <mn/job/failure.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <mutex>
#include <system_error>
#include <typeinfo>

#include <boost/core/demangle.hpp>
#include <cxxabi.h>
#include <mpi.h>
#include <unistd.h>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>
#include <mn/job/end_note.hpp>
#include <mn/job/standard_error.hpp>

namespace mn {
namespace {

constexpr auto kFlushTime = std::chrono::milliseconds(500);
constexpr auto kRootFirst = std::chrono::milliseconds(500);

// A terminate handler takes no argument, so its inputs are global.
Speaker failing_speaker;
FailureHooks failing_hooks;
std::terminate_handler previous_terminate = nullptr;
std::atomic_flag report_claimed;

std::function<void(int)> exit_function;
std::atomic<pid_t> watched_process = 0;  // 0: none

void handle_exit(int status, void* /*argument*/) {
  pid_t own = getpid();
  if (watched_process.compare_exchange_strong(own, 0)) exit_function(status);
}

struct Outcome {
  std::string message;
  int exit_code = 1;
  bool on_all_ranks = false;
};

Outcome outcome_of(const std::exception_ptr& error) {
  if (!error) return {"std::terminate was called without an exception"};
  try {
    std::rethrow_exception(error);
  } catch (const Error& mine) {
    return {mine.what(), mine.exit_code(), mine.on_all_ranks()};
  } catch (const std::exception& other) {
    return {"uncaught " + boost::core::demangle(typeid(other).name()) + ": " + first_line_of(other.what())};
  } catch (const char* text) {
    return {"uncaught text: " + first_line_of(text == nullptr ? "" : text)};
  } catch (const std::string& text) {
    return {"uncaught text: " + first_line_of(text)};
  } catch (int number) {
    return {"uncaught number: " + std::to_string(number)};
  } catch (...) {
    const std::type_info* const type = abi::__cxa_current_exception_type();
    return {"uncaught exception of type " + (type == nullptr ? "unknown" : boost::core::demangle(type->name()))};
  }
}

[[noreturn]] void handle_terminate() { end_for_error(std::current_exception()); }

}  // namespace

void watch_exit(std::function<void(int status)> on_exit) {
  static std::once_flag once;
  std::call_once(once, [] { ::on_exit(handle_exit, nullptr); });
  exit_function = std::move(on_exit);
  watched_process = getpid();
}

void ignore_exit() noexcept { watched_process = 0; }

std::string Speaker::line(const std::string& message) const {
  return "mn: rank " + std::to_string(rank) + " (host " + host + "): " + message + "\n";
}

bool claim_report() noexcept { return !report_claimed.test_and_set(); }

void report(const Speaker& speaker, const std::string& message) { write_stderr(speaker.line(message)); }

void flush_output() {
  const auto flush = [] {
    std::cout.flush();
    std::fflush(nullptr);
  };
  // A pipe without a reader, or a hanging file system, may block the flush.
  std::packaged_task<void()> task(flush);
  const auto flushed = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error&) {  // no more threads can be started
    return flush();
  }
  flushed.wait_for(kFlushTime);
}

void install_terminate_handler(const Speaker& speaker, FailureHooks hooks) {
  failing_speaker = speaker;
  failing_hooks = std::move(hooks);
  // If a second Job installs the handler again, `previous` is this handler itself.
  const auto previous = std::set_terminate(handle_terminate);
  if (previous != handle_terminate) previous_terminate = previous;
}

void remove_terminate_handler() {
  if (previous_terminate != nullptr) std::set_terminate(std::exchange(previous_terminate, nullptr));
  failing_hooks = {};
}

std::jthread exit_soon(int exit_code) {
  return std::jthread([exit_code](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, stop, std::chrono::seconds(4), [&] { return stop.stop_requested(); })) {
      std::_Exit(exit_code);
    }
  });
}

void end_all_ranks(int exit_code) {
  ignore_exit();
  flush_output();
  const auto bound = exit_soon(exit_code);  // ends the process if the disk or MPI hangs
  write_calls("this rank ends the job");
  // MPI_Abort ends ranks that have no peer monitor, but may hang or return.
  if (mpi_is_up()) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

void end_all_ranks(const Speaker& speaker, const std::string& message, const FailureHooks& hooks, int exit_code,
                   const std::string& table) {
  // MPI and the launcher print pages of text about ended ranks, and the calling rank's line must come last.
  silence_stderr();
  if (hooks.announce_report) hooks.announce_report();
  // The thread claims the report only now: until now the handler of SIGTERM may report a lost peer.
  if (!claim_report()) {
    const auto bound = exit_soon(exit_code);
    while (true) pause();
  }
  write_stderr(table);
  report(speaker, message);
  wait_until_shown();
  const auto bound = exit_soon(exit_code);
  write_end_note(message);
  end_all_ranks(exit_code);
}

void end_for_error(std::exception_ptr error) {
  static std::atomic_flag failing;
  while (failing.test_and_set()) pause();  // a different thread ends the process
  const Outcome outcome = outcome_of(error);
  flush_output();
  // After MPI_Finalize the launcher sees the exit status.
  if (outcome.on_all_ranks && (!failing_hooks.all_ranks_agree || failing_hooks.all_ranks_agree())) {
    if (failing_speaker.rank == 0) report(failing_speaker, outcome.message);
    const auto bound = exit_soon(outcome.exit_code);  // MPI_Finalize may wait for unfinished communication
    if (failing_speaker.rank == 0) write_end_note(outcome.message);
    if (failing_hooks.finish) failing_hooks.finish(outcome.exit_code);
    std::_Exit(outcome.exit_code);
  }
  // A rank cannot know whether all ranks throw. If they do, rank 0 should report.
  if (failing_speaker.rank != 0 && failing_hooks.may_report) std::this_thread::sleep_for(kRootFirst);
  // The reporting rank ends the ranks that wait here.
  while (failing_hooks.may_report && !failing_hooks.may_report()) pause();
  end_all_ranks(failing_speaker, outcome.message, failing_hooks, outcome.exit_code);
}

}  // namespace mn
