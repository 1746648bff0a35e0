/// How the waits of a call end before what they wait for has come: at its time-out, or where another rank has given up.
///
/// CallCheck makes a CallLimits for a communicator, and a LimitedCall for each call that has a time-out. What waits
/// within the call asks check_limits() at each look, on whatever layer it is: in shared memory, for MPI (mpi_wait()),
/// for NCCL. The ranks find out who is missing by notices (notices.hpp).
///
/// Invariants:
/// 1. In a collective call a rank asks all others at half of its time; those that wait answer in which call. At the
///    end of its time, and no sooner than the answers can be here, it tells them that it gives up, and why; those that
///    wait throw the same at once.
/// 2. A rank answers while it waits in a call with a limit; so one that does not answer is not in such a call. An
///    answer carries its question's number: what a rank said when another call asked does not count.
/// 3. Once a rank has given up, MPI may still work on what the call has begun: every later call of the communicator
///    throws, it is never destroyed (registry.cpp), and memory that was made for the call stays (KeptForMpi).
///
/// Cost: without a time-out, a null thread-local pointer for a look of a wait that takes long. With one, MPI's
/// collective calls are its non-blocking ones, waited for by looks; a look reads the clock, and each millisecond probes
/// for notices. 3 n (n - 1) notices of 328 bytes where n ranks give up.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
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

class LimitedCall;

/// What a communicator knows of its calls' ends.
class CallLimits {
 public:
  /// As Notices'. `timeout` 0: none.
  CallLimits(MPI_Comm comm, const GroupName& group, std::chrono::milliseconds timeout)
      : notices_(comm, group), group_(group), timeout_(timeout) {}

  /// Time-out of calls that begin now; 0: none.
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept { return timeout_; }
  void set_timeout(std::chrono::milliseconds timeout) noexcept { timeout_ = timeout; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  /// The same, after a look at what other ranks have sent.
  [[nodiscard]] bool has_failed();
  /// Why the communicator cannot be used any more; empty if it can. Any thread.
  [[nodiscard]] std::string failure() const;
  /// Ends this rank's call with a limit, and tells the other ranks that it gives up. Any thread.
  void abort(const std::string& reason);

 private:
  friend class LimitedCall;
  /// Keeps the first reason.
  void fail(const std::string& reason);

  Notices notices_;
  GroupName group_;
  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;  // guards the reason
  std::string failure_;
  std::atomic<bool> failed_{false};
  std::uint64_t questions_ = 0;  // that this rank has asked
};

/// A call with a time-out, from construction to destruction, on the thread that makes it; calls within it keep the
/// outer one's.
class LimitedCall {
 public:
  using Clock = std::chrono::steady_clock;
  /// What ends it before what it waits for.
  enum class End {
    kTimeout,  ///< its time-out, or a rank that gives up
    kFailure,  ///< a rank that gives up, alone: another thread's call has the time-out
  };

  LimitedCall(CallLimits& limits, const CallName& call, End end = End::kTimeout);
  /// With another time-out than that of calls that begin now.
  LimitedCall(CallLimits& limits, const CallName& call, std::chrono::milliseconds timeout);
  ~LimitedCall();
  LimitedCall(const LimitedCall&) = delete;
  LimitedCall& operator=(const LimitedCall&) = delete;

  /// Throws CommError once the time is over, or another rank has given up.
  void check();
  /// Whether a rank has given up by now, for looks that do not wait.
  [[nodiscard]] static bool is_given_up(CallLimits& limits, const CallName& call);

 private:
  void look(Clock::time_point now);
  void take(const Notice& notice);
  void end_if_failed() const;
  [[noreturn]] void give_up();
  [[nodiscard]] std::string who_is_missing() const;

  CallLimits& limits_;
  CallName call_;
  End end_;
  std::chrono::milliseconds timeout_;
  LimitedCall* outer_;
  Clock::time_point begin_;
  Clock::time_point next_look_;
  Clock::time_point asked_;
  std::uint64_t question_ = 0;             // number of this call's; 0: it has not asked
  std::vector<CallName> others_;           // by rank: the call in which each waits
  std::vector<std::string> others_names_;  // what their `operation` points to; empty: has not answered
};

/// The call of this thread whose waits are limited; null: none.
[[nodiscard]] LimitedCall* limited_call() noexcept;

/// For every look of a wait that takes long. Throws CommError as LimitedCall::check() does.
inline void check_limits() {
  if (LimitedCall* const call = limited_call(); call != nullptr) call->check();
}

/// What MPI reads or writes in a wait that may be given up: where an exception ends it, it stays for the life of the
/// process.
template <class T>
class KeptForMpi {
 public:
  explicit KeptForMpi(T value) : value_(std::make_unique<T>(std::move(value))) {}
  ~KeptForMpi() {
    // (3): a call that was given up may still write to it.
    if (std::uncaught_exceptions() > exceptions_) static_cast<void>(value_.release());
  }
  KeptForMpi(const KeptForMpi&) = delete;
  KeptForMpi& operator=(const KeptForMpi&) = delete;
  [[nodiscard]] T& operator*() const noexcept { return *value_; }
  [[nodiscard]] T* operator->() const noexcept { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
  int exceptions_ = std::uncaught_exceptions();  // that unwind already
};

/// What a call of MPI does, for messages, and where.
struct Operation {
  Operation(std::string_view text_, std::source_location where_ = std::source_location::current())  // NOLINT: implicit
      : text(text_), where(where_) {}
  Operation(const std::string& text_,
            std::source_location where_ = std::source_location::current())  // NOLINT: implicit
      : text(text_), where(where_) {}
  Operation(const char* text_, std::source_location where_ = std::source_location::current())  // NOLINT: implicit
      : text(text_), where(where_) {}
  std::string_view text;
  std::source_location where;
};

/// Returns when the requests are done; they are then null. Within a limited call it looks, else it blocks in MPI.
void mpi_wait(std::span<MPI_Request> requests, const Operation& operation, std::size_t bytes = 0);
/// The same for one request, with what MPI says of it.
void mpi_wait(MPI_Request& request, MPI_Status* status, const Operation& operation, std::size_t bytes = 0);

/// A call of MPI by its blocking form, or within a limited call by its other one: call_mpi(MPI_Barrier, MPI_Ibarrier,
/// "barrier", 0, comm). All ranks choose alike, as a collective call of one form does not match the other's.
template <class Blocking, class Starting, class... Arguments>
void call_mpi(const Blocking& blocking, const Starting& starting, const Operation& operation, std::size_t bytes,
              Arguments... arguments) {
  if (limited_call() == nullptr) return mpi_check(blocking(arguments...), operation.text, bytes, operation.where);
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_check(starting(arguments..., &request), operation.text, bytes, operation.where);
  mpi_wait({&request, 1}, operation, bytes);
}

}  // namespace mn
