/// A rank reports its own end and ends the job: in the terminate handler, the peer monitor's thread, or Job's
/// destructor.
///
/// 1. One rank of the job reports one line, the last on stderr; MPI's own text is silenced first. If several threads
///    and signal handlers of a process report an end, only the first one writes.
/// 2. If every rank throws the same error at the same point, rank 0 alone reports, and MPI is finalized. If all ranks
///    throw different errors within half a second, rank 0 reports: every other rank waits half a second first.
/// 3. No step can delay the end: flushing takes at most half a second. MPI_Abort and MPI_Finalize, which may never
///    return, have four seconds; then the process exits by itself.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>

namespace mn {

struct Speaker {
  int rank = 0;
  std::string host;

  /// "mn: rank 2 (host vn1): message\n".
  [[nodiscard]] std::string line(const std::string& message) const;
};

/// Calls of a failing rank into its running job; each may be empty.
struct FailureHooks {
  /// Collective; true if every rank calls it within two seconds, because all ranks have the same error.
  std::function<bool()> all_ranks_agree;
  /// Finalizes MPI; ends all ranks if MPI_Finalize cannot return.
  std::function<void(int exit_code)> finish;
  /// True if this rank is to report; false if another rank reports, and will end this process.
  std::function<bool()> may_report;
  /// Announces this rank's report to the peers, and waits until all are silent.
  std::function<void()> announce_report;
};

/// exit(status) in the program will call `on_exit(status)`, at most once, on the thread that calls exit(), and not in a
/// fork()ed child. Replaces an earlier function. Source: on_exit(3) of the GNU C library; atexit() tells no status.
void watch_exit(std::function<void(int status)> on_exit);
/// Call it before MPI_Abort, which calls exit() too.
void ignore_exit() noexcept;

/// Reports `error`, or a call of std::terminate without an error, and ends all ranks. Later callers wait for the end.
[[noreturn]] void end_for_error(std::exception_ptr error);

/// Makes an uncaught exception call end_for_error().
void install_terminate_handler(const Speaker& speaker, FailureHooks hooks);
void remove_terminate_handler();

/// True for the first caller in this process, which must write its report of the end at once. Safe in signal handlers.
[[nodiscard]] bool claim_report() noexcept;

/// Writes one line to stderr, in a single write.
void report(const Speaker& speaker, const std::string& message);

/// Flushes std::cout and stdio, for half a second at most: a full pipe, or a held lock, would block forever.
void flush_output();

/// Ends this process in four seconds unless the result is destroyed earlier: guards MPI calls that may wait forever.
[[nodiscard]] std::jthread exit_soon(int exit_code);

/// Writes the last calls, then ends all ranks by MPI_Abort if MPI is up, and this process within four seconds.
[[noreturn]] void end_all_ranks(int exit_code);

/// Announces the report through `hooks`, writes `table` and `message`, and ends all ranks. If another thread of this
/// process has claimed the report, writes nothing and waits until that thread ends the process.
[[noreturn]] void end_all_ranks(const Speaker& speaker, const std::string& message, const FailureHooks& hooks,
                                int exit_code, const std::string& table = {});

}  // namespace mn
