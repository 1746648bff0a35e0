/// Ends a call of a communicator early, when its time-out is over or a different rank has given up.
///
/// CallCheck makes a CallTimeouts for a communicator, and a TimedCall for each call with a time-out. A wait within the
/// call polls its condition, and calls check_timeout() in each round. To find out which ranks are missing, ranks send
/// each other small messages, called notices (notices.hpp).
///
/// Invariants:
/// 1. If a collective call takes longer than half of its time-out, the rank asks all remaining ranks for the names of
///    their calls. A rank that waits in a call answers with the call's name. When the time-out is over, and the answers
///    have had time to arrive, the rank tells all other ranks that it gives up, and why. Waiting ranks then throw a
///    CommError with this reason at once.
/// 2. A rank that does not answer counts as missing, because it is in no call with a time-out. Questions are numbered,
///    and an answer carries the number of its question. Therefore late answers are ignored.
/// 3. After a rank has given up, MPI may still work on the call. Every later call of the communicator throws, the
///    communicator is never destroyed (registry.cpp), and memory of the call stays (KeptForMpi).
///
/// Cost without a time-out: each round of a wait reads a thread-local pointer. With a time-out, MPI's nonblocking
/// collectives are used; each round reads the clock and, at most once per millisecond, probes for notices. If n ranks
/// give up, they send 3 n (n - 1) notices of 328 bytes.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpi.h>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/calls/notices.hpp>
#include <mn/comm/mpi/mpi.hpp>

namespace mn {

class TimedCall;

class CallTimeouts {
 public:
  /// Notices travel between the ranks of `comm`, which `group` names. If `timeout` is 0, calls have no time-out.
  CallTimeouts(MPI_Comm comm, const GroupName& group, std::chrono::milliseconds timeout)
      : notices_(comm, group), group_(group), timeout_(timeout) {}

  /// Time-out of calls that begin now; 0 means none.
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept { return timeout_; }
  void set_timeout(std::chrono::milliseconds timeout) noexcept { timeout_ = timeout; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bool has_failed();
  /// Why the communicator cannot be used any more; empty if it can. Any thread may call failure().
  [[nodiscard]] std::string failure() const;
  /// Gives up the communicator: tells all ranks, and ends this rank's timed call. Any thread may call abort().
  void abort(const std::string& reason);

 private:
  friend class TimedCall;
  void fail(const std::string& reason);

  Notices notices_;
  GroupName group_;
  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;  // guards failure_
  std::string failure_;
  std::atomic<bool> failed_{false};
  std::uint64_t questions_ = 0;
};

/// A call with a time-out, from the constructor to the destructor, on one thread. Meanwhile every wait on this thread
/// checks the time-out.
class TimedCall {
 public:
  using Clock = std::chrono::steady_clock;
  /// The events that may end a call before it completes.
  enum class End {
    kTimeout,  ///< the time-out of the call is over, or a different rank gives up
    kFailure,  ///< another rank gives up; a call on another thread has the time-out
  };

  /// If `timeout` is given, it replaces the communicator's time-out.
  TimedCall(CallTimeouts& timeouts, const CallName& call, End end = End::kTimeout,
            std::optional<std::chrono::milliseconds> timeout = {});
  ~TimedCall();
  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;

  void check();
  /// True if a rank has given up. For functions that must not block, for example Request::is_done().
  [[nodiscard]] static bool is_given_up(CallTimeouts& timeouts, const CallName& call);

 private:
  void look(Clock::time_point now);
  void take(const Notice& notice);
  void end_if_failed() const;
  [[noreturn]] void give_up();
  [[nodiscard]] std::string who_is_missing() const;

  CallTimeouts& timeouts_;
  CallName call_;
  End end_;
  std::chrono::milliseconds timeout_;
  TimedCall* outer_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point next_look_ = begin_;
  Clock::time_point asked_;
  std::uint64_t question_ = 0;                  // number of this call's question; 0: none was sent
  std::vector<std::optional<Notice>> answers_;  // [rank]; no value: no answer yet
};

/// The calling thread's call that has a time-out; null if there is none.
[[nodiscard]] TimedCall* timed_call() noexcept;

/// Throws CommError if the calling thread's call is past its time-out, or if a different rank has given up.
inline void check_timeout() {
  if (TimedCall* const call = timed_call(); call != nullptr) call->check();
}

/// Owns memory that MPI uses in a call with a time-out. If an exception destroys the object, the memory is never freed,
/// because MPI may still use it.
template <class T>
class KeptForMpi {
 public:
  explicit KeptForMpi(T value) : value_(std::make_unique<T>(std::move(value))) {}
  ~KeptForMpi() {
    // Invariant 3: the exception may come from a call that gave up, and MPI may still use the memory.
    if (std::uncaught_exceptions() > exceptions_) static_cast<void>(value_.release());
  }
  KeptForMpi(const KeptForMpi&) = delete;
  KeptForMpi& operator=(const KeptForMpi&) = delete;
  [[nodiscard]] T& operator*() const noexcept { return *value_; }
  [[nodiscard]] T* operator->() const noexcept { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
  int exceptions_ = std::uncaught_exceptions();  // exceptions that were unwinding the stack at construction
};

/// Names a call of MPI in error messages: a text, and the line in the source.
struct Operation {
  template <std::convertible_to<std::string_view> Text>
  Operation(const Text& text_, std::source_location where_ = std::source_location::current())  // NOLINT: implicit
      : text(text_), where(where_) {}
  std::string_view text;
  std::source_location where;
};

/// Waits for the requests, and then sets each of them to MPI_REQUEST_NULL. In a call with a time-out the wait polls the
/// requests; otherwise it blocks in MPI.
void mpi_wait(std::span<MPI_Request> requests, const Operation& operation, std::size_t bytes = 0);
/// Like mpi_wait() above, for one request; MPI writes its status to `status`.
void mpi_wait(MPI_Request& request, MPI_Status* status, const Operation& operation, std::size_t bytes = 0);

/// Makes a call of MPI: in its nonblocking form if the calling thread is in a call with a time-out, otherwise in its
/// blocking form. All ranks must use the same form. Usage: call_mpi(MPI_Barrier, MPI_Ibarrier, "barrier", 0, comm).
template <class Blocking, class Starting, class... Arguments>
void call_mpi(const Blocking& blocking, const Starting& starting, const Operation& operation, std::size_t bytes,
              Arguments... arguments) {
  if (timed_call() == nullptr) return mpi_check(blocking(arguments...), operation.text, bytes, operation.where);
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_check(starting(arguments..., &request), operation.text, bytes, operation.where);
  mpi_wait({&request, 1}, operation, bytes);
}

}  // namespace mn
