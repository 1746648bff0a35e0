/// How a rank reports its own end and takes the job with it.
///
/// Called on the rank that fails: by the terminate handler, the peer monitor's thread, or Job's destructor.
///
/// Invariants:
/// 1. One rank reports one line, the last on stderr: MPI's own text is silenced before it. Of several threads and
///    signal handlers of a process that report an end, the first writes.
/// 2. An error that every rank throws at the same point is reported by rank 0 alone, and MPI is finalized.
///    Likewise if all ranks throw within half a second, so the first waits that long.
/// 3. No step can hold up the end: flushing takes half a second at most; MPI_Abort and MPI_Finalize, which may never
///    return, are bounded by four seconds, after which the process exits by itself.
#pragma once

#include <exception>
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

/// What a failing rank calls of its running job; each may be empty.
struct FailureHooks {
  /// True if every rank calls it within a moment: all have the same error, and MPI can be finalized.
  std::function<bool()> all_ranks_agree;
  /// Finalizes MPI, or ends all ranks where that cannot return.
  std::function<void(int exit_code)> finish;
  /// True if this rank is to report; false if another has, which then ends this process.
  std::function<bool()> may_report;
  /// Announces to the peers that this rank reports the end, and waits until they are silent.
  std::function<void()> announce_report;
};

/// Reports `error`, or that there is none, and ends all ranks; other threads that call it wait for the end.
[[noreturn]] void end_for_error(std::exception_ptr error);

/// Makes an uncaught exception end all ranks with one message, as end_for_error() does.
void install_terminate_handler(const Speaker& speaker, FailureHooks hooks);
void remove_terminate_handler();

/// True for the first caller in this process, which must write its report of the end at once. For signal handlers, too.
[[nodiscard]] bool claim_report() noexcept;

/// One line on stderr in a single write.
void report(const Speaker& speaker, const std::string& message);

/// Flushes std::cout and all of stdio, as far as that takes no longer than half a second: a full pipe that nobody
/// reads, or the lock of a thread that writes to one, would keep the process forever.
void flush_output();

/// Ends this process unless the result is destroyed within four seconds: for calls of MPI that may wait forever.
[[nodiscard]] std::jthread exit_soon(int exit_code);

/// Ends this process and, where MPI is up, all others: MPI_Abort, and _exit should that not return within four seconds.
/// Writes the last calls before (flight_recorder.hpp).
[[noreturn]] void end_all_ranks(int exit_code);

/// Announces a report through `hooks`, writes `table` and `message`, and ends all ranks. Where another thread of this
/// process has reported an end, writes nothing and waits until that thread ends the process.
[[noreturn]] void end_all_ranks(const Speaker& speaker, const std::string& message, const FailureHooks& hooks,
                                int exit_code, const std::string& table = {});

}  // namespace mn
