/// How a rank reports its own end and takes the job with it.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace mn {

/// Who speaks in messages.
struct Speaker {
  int rank = 0;
  std::string host;

  /// "mn: rank 2 (host vn1): message\n".
  [[nodiscard]] std::string line(const std::string& message) const;
};

/// What a running job lends to its failing rank; each may be empty.
struct FailureHooks {
  /// True if every rank comes here within a moment: the error is everybody's, and MPI can end in good order.
  std::function<bool()> all_ranks_agree;
  /// Leaves the job in good order.
  std::function<void(int exit_code)> finish;
  /// True if this rank is the one to report; false if another has, and something else ends this process.
  std::function<bool()> may_report;
  /// Tells the peers that this rank has reported the end.
  std::function<void()> tell_reported;
};

/// Makes an uncaught exception end all ranks with one message, as fail_job does.
void install_terminate_handler(const Speaker& speaker, FailureHooks hooks);
void remove_terminate_handler();

/// One line on stderr in a single write.
void report(const Speaker& speaker, const std::string& message);

/// Flushes std::cout and all of stdio, as far as that takes no longer than half a second: a full pipe that nobody
/// reads, or the lock of a thread that writes to one, would keep the process for ever.
void flush_output();

/// Ends this process unless the result goes within four seconds: for calls of MPI that may wait for ever.
[[nodiscard]] std::jthread exit_soon(int exit_code);

/// Ends this process and, where MPI is up, all others: MPI_Abort, and _exit should that not return within four seconds.
[[noreturn]] void end_all_ranks(int exit_code);

/// The same, with `message` reported first and `hooks` told: the last line on stderr, of MPI's own text too.
[[noreturn]] void end_all_ranks(const Speaker& speaker, const std::string& message, const FailureHooks& hooks,
                                int exit_code);

}  // namespace mn
