/// A rank that fails reports the reason and ends the job. The code runs in the terminate handler, on the peer monitor's
/// thread, or in Job's destructor.
///
/// 1. One rank of the job reports one line. The line is the last one on stderr, because MPI's own text is silenced
///    before. If several threads and signal handlers of a process report an end, only the first one writes.
/// 2. If every rank throws the same error at the same point, rank 0 alone reports, and MPI is finalized. If all ranks
///    throw different errors within half a second, rank 0 reports, because the other ranks wait half a second first.
/// 3. No step delays the end for long. The output is flushed for at most half a second. MPI_Abort and MPI_Finalize may
///    never return, so the process exits by itself after four seconds.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>

namespace mn {

struct Speaker {
  int rank = 0;
  std::string host;

  /// Returns "mn: rank 2 (host vn1): message\n".
  [[nodiscard]] std::string line(const std::string& message) const;
};

/// Functions of the running job that a failing rank calls. Each function may be empty.
struct FailureHooks {
  /// Collective: true if all ranks call this function within two seconds, each after an exception.
  std::function<bool()> all_ranks_agree;
  /// Finalizes MPI; ends all ranks if MPI_Finalize cannot return.
  std::function<void(int exit_code)> finish;
  /// True if the calling rank must report the end. False if a different rank reports it and ends this process.
  std::function<bool()> may_report;
  /// Announces the calling rank's report to the peers, and waits until they have silenced their stderr.
  std::function<void()> announce_report;
};

/// If the program calls exit(status), `on_exit(status)` is called once, on the same thread, and not in a fork()ed
/// child. Replaces an earlier watch_exit(). Source: on_exit(3) of the GNU C library (a function of atexit() gets no
/// status).
void watch_exit(std::function<void(int status)> on_exit);
/// Cancels watch_exit(). Call ignore_exit() before MPI_Abort, because MPI_Abort calls exit(), too.
void ignore_exit() noexcept;

/// Reports `error` (null: std::terminate without an exception), and ends all ranks. Later callers block.
[[noreturn]] void end_for_error(std::exception_ptr error);

/// Makes every uncaught exception of the program lead to end_for_error().
void install_terminate_handler(const Speaker& speaker, FailureHooks hooks);
void remove_terminate_handler();

/// True for the first caller in this process, which must then report the end at once. Safe in signal handlers.
[[nodiscard]] bool claim_report() noexcept;

/// Writes one line to stderr, in a single write.
void report(const Speaker& speaker, const std::string& message);

/// Flushes std::cout and stdio. Gives up after half a second, because a full pipe or a held lock would block forever.
void flush_output();

/// Ends this process in four seconds, unless the returned thread is destroyed first: calls of MPI may never return.
[[nodiscard]] std::jthread exit_soon(int exit_code);

/// Writes the last communicator calls, ends all ranks by MPI_Abort if MPI is up, and this process in four seconds.
[[noreturn]] void end_all_ranks(int exit_code);

/// Announces the report through `hooks`, writes `table` and `message`, and ends all ranks. If a different thread of
/// this process has claimed the report, writes nothing and waits for the end of the process.
[[noreturn]] void end_all_ranks(const Speaker& speaker, const std::string& message, const FailureHooks& hooks,
                                int exit_code, const std::string& table = {});

}  // namespace mn
