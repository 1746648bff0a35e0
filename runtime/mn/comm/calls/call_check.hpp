/// What every call of a communicator does before it sends: it checks its arguments, is recorded, starts its time-out
/// and, in debug mode, is compared between ranks. Communicator's public members call CallCheck first.
///
/// Invariants of debug mode:
/// 1. Either all ranks throw an equal ArgumentError or none does, because each rank decides by the texts of all ranks.
/// 2. The comparison is the first message of every collective call, so ranks that make different calls meet in the
///    comparison.
/// 3. NCCL needs one order of calls for all communicators of a GPU. Communicators that share an MPI communicator for
///    comparisons compare this order, too: a rank that calls another one of them is a mismatch.
/// 4. A collective call has the same number on all ranks, because a rank that rejects an argument does not count the
///    call. In debug mode all ranks count the call, and all throw. This invariant holds without debug mode, too.
///
/// Cost: a record for each call (flight_recorder.hpp). In debug mode each collective call makes two small
/// MPI_Allgather, and two more before it throws an error. match() sends a message to the next rank (call_match.hpp), or
/// makes an MPI_Iallgather of 48 bytes if the call has a time-out.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/calls/group_calls.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/buffer.hpp>
#include <mn/core/error.hpp>

namespace mn {

/// A call of a communicator, which lasts from the construction of the object to its destruction. CallCheck makes the
/// object.
class CallScope {
 public:
  CallScope(CallTimeouts& timeouts, const GroupName& group, const CallName& call) : record_(group, call) {
    if (timeouts.timeout().count() > 0) timed_.emplace(timeouts, call);
  }
  /// Begins a blocking call. `compare()` is the first step in which the call may wait for other ranks.
  template <class Compare>
  CallScope(CallTimeouts& timeouts, const GroupName& group, const CallName& call, const Compare& compare)
      : CallScope(timeouts, group, call) {
    if (timed_) timed_->check();  // another rank may have given up already
    compare();
  }

 private:
  RecordedCall record_;
  std::optional<TimedCall> timed_;
};

/// The `checks` or `details` of a call that has none.
struct Nothing {
  std::string operator()() const { return {}; }
};

/// Checks and records the calls of a communicator. In debug mode ranks exchange their next collective call before they
/// make it, and throw equal errors if calls differ, if a rank rejects an argument, or if gradients are not finite.
class CallCheck {
 public:
  /// The modes that one rank asks for. The ranks of a new group agree on modes for the whole group.
  struct Modes {
    bool debug = false;                    ///< on for the group if any rank asks for it
    std::chrono::milliseconds timeout{0};  ///< the group gets the longest of all ranks; 0: none
  };

  /// Collective over `comm`, which the caller keeps and frees. `comparisons` is the share_comparisons() of a
  /// communicator of the same ranks, or null.
  CallCheck(MPI_Comm comm, const Modes& modes, std::shared_ptr<const Mpi> comparisons = {});
  /// Collective. Returns the MPI communicator over which debug mode compares this communicator's calls from now on, for
  /// another communicator of the same ranks (3). Null without debug mode.
  [[nodiscard]] std::shared_ptr<const Mpi> share_comparisons();

  /// Begins a blocking collective call, which lasts until the returned CallScope is destroyed. `what` has the number
  /// and the dtype of the call's elements. `checks()` throws ArgumentError if an argument is wrong; `details()` returns
  /// lines that must be equal on all ranks.
  template <class Checks = Nothing, class Details = Nothing>
  [[nodiscard]] CallScope collective(std::string_view operation, const ConstBufferView& what = {},
                                     const Checks& checks = {}, const Details& details = {}) {
    require_open(operation);
    count_call();
    if (!debug_) {
      checks();
      return {*timeouts_, group_, next_call(operation, what), [] {}};
    }
    const CallName call = next_call(operation, what);
    return {*timeouts_, group_, call, [&] {
              std::string rejection;
              try {
                checks();
              } catch (const ArgumentError& error) {
                rejection = error.what();
              }
              compare({operation, call}, details(), rejection);
            }};
  }
  /// Begins a nonblocking collective call. If `by_thread`, a background thread makes the call, and the thread also
  /// checks and compares the call in debug mode.
  template <class Checks>
  [[nodiscard]] CallScope start(std::string_view operation, const ConstBufferView& what, const Checks& checks,
                                bool by_thread) {
    require_open(operation);
    if (!debug_ || !by_thread) checks();
    count_call();
    return {*timeouts_, group_, next_call(operation, what)};
  }
  /// Begins a reduction of the buffers that were passed to Communicator::share(). Nothing is compared here, because
  /// share() has compared the buffers between ranks.
  [[nodiscard]] CallScope shared_reduction(const ConstBufferView& what) {
    require_open("allreduce_grad");
    return {*timeouts_, group_, next_call("allreduce_grad", what)};
  }
  /// Collective, for calls that would otherwise send data without comparing their arguments between ranks. Throws
  /// CallMismatch unless the ranks make the call with equal count, dtype, root (-1: none) and op. If the call has a
  /// time-out, all ranks have reached this call when match() returns.
  void match(std::string_view operation, const ConstBufferView& what, int root = -1, ReduceOp op = ReduceOp::kSum);
  /// Makes `call()`. If it throws CallMismatch, the communicator is given up.
  template <class Call>
  void give_up_on_mismatch(const Call& call) {
    try {
      call();
    } catch (const CallMismatch& error) {
      timeouts_->abort("rank " + std::to_string(group_.rank) + " has given up: " + error.what());
      throw;
    }
  }
  /// Begins a message to or from rank `peer` (-1: any rank). The caller has checked the message's arguments.
  [[nodiscard]] CallScope message(std::string_view operation, const ConstBufferView& what, int peer) {
    return {*timeouts_, group_, message_name(operation, what, peer)};
  }
  // The next three functions make records for DeviceCollectives, which enqueues collective calls and waits for them.
  // Arguments are not checked, and there is no time-out.

  /// Records a collective call that is enqueued on the device. The record ends when the call is enqueued, not when its
  /// work is done.
  [[nodiscard]] RecordedCall enqueued(std::string_view operation, const ConstBufferView& what) {
    CallName call = next_call(operation, what);
    call.on_device = true;
    return {group_, call};
  }
  [[nodiscard]] RecordedCall enqueued_message(std::string_view operation, const ConstBufferView& what, int peer) {
    return {group_, message_name(operation, what, peer)};
  }
  /// Records a wait for collective call number `number` and all calls before it.
  [[nodiscard]] RecordedCall device_wait(std::uint64_t number) { return {group_, {"wait for the device", number}}; }
  /// Number of the group's last collective call; 0 before the first.
  [[nodiscard]] std::uint64_t number() const noexcept { return last_.number; }
  [[nodiscard]] const CallName& last() const noexcept { return last_; }
  /// For the communicator of a background thread: its next collective call is recorded with the name and the number of
  /// `call`, the program's nonblocking call.
  void stand_for(const CallName& call) noexcept { stands_for_ = call; }
  /// Throws ArgumentError after close(), CommError after a call that gave up.
  void require_open(std::string_view operation) const;
  /// Collective in debug mode. Later calls throw.
  void close() noexcept {
    open_ = false;
    comparisons_.reset();
  }
  [[nodiscard]] bool is_open() const noexcept { return open_; }
  [[nodiscard]] bool debug() const noexcept { return debug_; }
  [[nodiscard]] CallTimeouts& timeouts() noexcept { return *timeouts_; }
  [[nodiscard]] const GroupName& group() const noexcept { return group_; }
  /// Number of collective calls of the calling thread, on all communicators.
  [[nodiscard]] static std::uint64_t calls_of_thread() noexcept;

 private:
  static void count_call() noexcept;
  [[nodiscard]] CallName next_call(std::string_view operation, const ConstBufferView& what) noexcept {
    last_ = {operation, last_.number + 1, what.count, what.dtype};
    CallName call = last_;
    if (stands_for_) {
      call.operation = stands_for_->operation;
      call.number = stands_for_->number;
      stands_for_.reset();
    }
    count_->set(call.number);
    return call;
  }
  [[nodiscard]] CallName message_name(std::string_view operation, const ConstBufferView& what, int peer) const {
    return {operation, 0, what.count, what.dtype, peer, peer < 0 ? -1 : world_ranks_[static_cast<std::size_t>(peer)]};
  }
  /// How a call is compared and recorded: its operation on this communicator, and its name in records. After
  /// stand_for(call), the name in records is the name of `call`.
  struct ComparedCall {
    std::string_view operation;
    const CallName& name;
  };
  void compare(const ComparedCall& call, const std::string& details, const std::string& rejection);

  MPI_Comm comm_;
  std::shared_ptr<const Mpi> comparisons_;  // null: calls are compared over comm_
  bool debug_ = false;
  bool open_ = true;
  GroupName group_;
  std::vector<int> world_ranks_;
  std::optional<GroupCount> count_;
  std::unique_ptr<CallTimeouts> timeouts_;
  CallName last_;
  std::optional<CallName> stands_for_;
};

// The check_ functions throw ArgumentError. In its text, `operation` ("bcast") names the call, and `role` ("send") the
// wrong argument.

/// Throws ArgumentError: the call `operation` does not accept `what`.
[[noreturn]] void reject(std::string_view operation, const std::string& what);
void check_rank(std::string_view operation, std::string_view role, int rank, int size);
/// `peer` must be a rank of the communicator, but not the calling rank.
void check_peer(std::string_view operation, std::string_view role, int peer, int rank, int size);
void check_tag(std::string_view operation, int tag, int max_tag);
/// Rejects booleans, which cannot be reduced, and averages of integers.
void check_reducible(std::string_view operation, const ConstBufferView& buffer, ReduceOp op);
/// `send` and `recv` must both lie on the host, or both on the device.
void check_same_memory(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv);
/// A buffer with elements must have memory, on the host or on `device`.
void check_buffer(std::string_view operation, std::string_view role, const ConstBufferView& buffer, Device device);
void check_same_dtype(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv);
/// Makes check_buffer() of both buffers, and check_same_dtype().
void check_buffers(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv, Device device);
/// `whole` must hold parts × part.count elements.
void check_parts(std::string_view operation, std::string_view whole_role, const ConstBufferView& whole,
                 std::string_view part_role, const ConstBufferView& part, int parts);
/// Whether `part` already is part number `own` of `whole`, so nothing must be copied. False if `part` is empty.
[[nodiscard]] bool is_in_place(const ConstBufferView& whole, const ConstBufferView& part, int own);
/// `part` may be exactly part number `own` of `whole` (an in-place call). Every other overlap of `part` and `whole` is
/// an error.
void check_in_place(std::string_view operation, const ConstBufferView& whole, const ConstBufferView& part, int own);

/// The buffers of a call as one, for the call's record: the number of all their elements, and the last buffer's dtype.
[[nodiscard]] ConstBufferView counted(std::span<const BufferView> buffers);
/// The text for a buffer in the name of a call, for instance " of 7 float32" or " of 7 float32 on a GPU".
[[nodiscard]] std::string described(const ConstBufferView& buffer);
/// The text for the second buffer of a call, for instance ", recv on a GPU". Empty if the buffer lies on the host.
[[nodiscard]] std::string memory_of(std::string_view role, const ConstBufferView& buffer);
/// The text for the root of a call, for instance ", root 3".
[[nodiscard]] std::string from_root(int root);

/// The first element of a host buffer that is not finite, for instance "nan at element 3". Empty if all elements are
/// finite, or integers.
[[nodiscard]] std::string first_non_finite(const ConstBufferView& buffer);

}  // namespace mn
