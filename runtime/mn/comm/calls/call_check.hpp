/// The steps that every call of a communicator takes before it sends data. CallCheck checks the arguments, records the
/// call, starts its time-out and, in debug mode, compares the call between ranks. Communicator calls it first.
///
/// Invariants of debug mode:
/// 1. Either all ranks throw an equal ArgumentError or no rank throws, because each rank gets the texts of all ranks
///    and decides by them.
/// 2. The comparison is the first message of every collective call, so ranks with different calls meet in it.
/// 3. On one GPU, NCCL needs one order of calls over all communicators. Communicators can therefore share an MPI
///    communicator for comparisons (share_comparisons()). If ranks call different communicators of such a set, the
///    comparison finds a mismatch.
/// 4. A collective call has the same number on all ranks. Without debug mode, a rank that rejects an argument does not
///    count the call. In debug mode all ranks count the call, and all ranks throw.
///
/// Cost: a record for each call (flight_recorder.hpp). In debug mode each collective call makes two small calls of
/// MPI_Allgather, and two more before it throws an error. match() sends a message to the next rank (call_match.hpp), or
/// makes an MPI_Iallgather of 48 bytes if the call has a time-out. Ranks that share memory compare calls there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpi.h>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/calls/group_calls.hpp>
#include <mn/comm/mpi/mpi.hpp>
#include <mn/core/buffer.hpp>
#include <mn/core/error.hpp>

namespace mn {

struct CallSignature;

/// Marks one call of a communicator: begun by the constructor, ended by the destructor. CallCheck makes the object.
class CallScope {
 public:
  CallScope(CallTimeouts& timeouts, const GroupName& group, const CallName& call) : record_(group, call) {
    if (timeouts.timeout().count() > 0) timed_.emplace(timeouts, call);
  }
  /// Begins a blocking call. `compare()` is the first step that may wait for other ranks.
  template <class Compare>
  CallScope(CallTimeouts& timeouts, const GroupName& group, const CallName& call, const Compare& compare)
      : CallScope(timeouts, group, call) {
    if (timed_) timed_->check();
    compare();
  }

 private:
  RecordedCall record_;
  std::optional<TimedCall> timed_;
};

/// Passed as `checks` or `details` of a call that has no checks or no details.
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

  /// Collective over `comm`. The caller keeps `comm` and frees it. `comparisons` is null, or the result of
  /// share_comparisons() of a different communicator of the same ranks.
  CallCheck(MPI_Comm comm, const Modes& modes, std::shared_ptr<const Mpi> comparisons = {});
  /// Collective. Returns the MPI communicator over which debug mode compares this communicator's calls; null without
  /// debug mode. If another communicator compares over it, too, the calls of both are compared in one order (invariant
  /// 3).
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
  /// Begins a nonblocking collective call. If `by_thread` is true, a background thread makes the call, and in debug
  /// mode that thread also checks and compares the call.
  template <class Checks>
  [[nodiscard]] CallScope start(std::string_view operation, const ConstBufferView& what, const Checks& checks,
                                bool by_thread) {
    require_open(operation);
    if (!debug_ || !by_thread) checks();
    count_call();
    return {*timeouts_, group_, next_call(operation, what)};
  }
  /// Begins a reduction of buffers that Communicator::share() has already compared between ranks.
  [[nodiscard]] CallScope shared_reduction(const ConstBufferView& what) {
    require_open("allreduce_grad");
    return {*timeouts_, group_, next_call("allreduce_grad", what)};
  }
  /// Collective: compares a call between ranks outside of debug mode. Throws CallMismatch unless all ranks make the
  /// call with equal count, dtype, root (-1: none) and op. With a time-out, all ranks have then made the call.
  void match(std::string_view operation, const ConstBufferView& what, int root = -1, ReduceOp op = ReduceOp::kSum);
  /// From now on match() calls `compare`, which does the same without messages.
  void match_by(std::function<void(const CallSignature&)> compare) { compare_calls_ = std::move(compare); }
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
  // For DeviceCollectives: the next three functions only record. They check nothing and start no time-out.

  [[nodiscard]] RecordedCall enqueued(std::string_view operation, const ConstBufferView& what) {
    CallName call = next_call(operation, what);
    call.on_device = true;
    return {group_, call};
  }
  [[nodiscard]] RecordedCall enqueued_message(std::string_view operation, const ConstBufferView& what, int peer) {
    return {group_, message_name(operation, what, peer)};
  }
  /// Records that the rank waits until the device has finished collective call number `number` and all calls before it.
  [[nodiscard]] RecordedCall device_wait(std::uint64_t number) { return {group_, {"wait for the device", number}}; }
  [[nodiscard]] std::uint64_t number() const noexcept { return last_.number; }
  [[nodiscard]] const CallName& last() const noexcept { return last_; }
  /// For a background thread's communicator: records its next collective call under the name and number of `call`.
  void stand_for(const CallName& call) noexcept { stands_for_ = call; }
  /// Throws ArgumentError after close(), and CommError after a call that gave up.
  void require_open(std::string_view operation) const;
  /// Closes the communicator: later calls throw. In debug mode close() is collective.
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
  /// `operation` names the call in comparisons between ranks, and `name` in records (see stand_for()).
  struct ComparedCall {
    std::string_view operation;
    const CallName& name;
  };
  void compare(const ComparedCall& call, const std::string& details, const std::string& rejection);

  MPI_Comm comm_;
  std::function<void(const CallSignature&)> compare_calls_;  // null: match() sends messages
  std::shared_ptr<const Mpi> comparisons_;                   // null: calls are compared over comm_
  bool debug_ = false;
  bool open_ = true;
  GroupName group_;
  std::vector<int> world_ranks_;
  std::optional<GroupCount> count_;
  std::unique_ptr<CallTimeouts> timeouts_;
  CallName last_;
  std::optional<CallName> stands_for_;
};

// The check_ functions throw ArgumentError. `operation` names the call in its text, and `role` the wrong argument.

[[noreturn]] void reject(std::string_view operation, const std::string& what);
void check_rank(std::string_view operation, std::string_view role, int rank, int size);
/// Throws unless `peer` is a rank of the communicator and is not the calling rank.
void check_peer(std::string_view operation, std::string_view role, int peer, int rank, int size);
void check_tag(std::string_view operation, int tag, int max_tag);
/// Throws for booleans, because they cannot be reduced, and for averages of integers.
void check_reducible(std::string_view operation, const ConstBufferView& buffer, ReduceOp op);
/// Throws unless `send` and `recv` both lie on the host, or both on the device.
void check_same_memory(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv);
/// Throws unless the buffer is empty or has memory on the host or on `device`.
void check_buffer(std::string_view operation, std::string_view role, const ConstBufferView& buffer, Device device);
void check_same_dtype(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv);
void check_buffers(std::string_view operation, const ConstBufferView& send, const ConstBufferView& recv, Device device);
/// Throws unless `whole` holds parts × part.count elements.
void check_parts(std::string_view operation, std::string_view whole_role, const ConstBufferView& whole,
                 std::string_view part_role, const ConstBufferView& part, int parts);
/// True if `part` is part number `own` of `whole`, at the same address. False if either buffer is empty.
[[nodiscard]] bool is_in_place(const ConstBufferView& whole, const ConstBufferView& part, int own);
/// Throws if `part` and `whole` overlap, unless `part` is exactly part number `own` of `whole` (an in-place call).
void check_in_place(std::string_view operation, const ConstBufferView& whole, const ConstBufferView& part, int own);

/// Describes all buffers of a call as one for its record: the sum of their counts, and the dtype of the last buffer.
[[nodiscard]] ConstBufferView counted(std::span<const BufferView> buffers);
/// The text for a buffer in the name of a call, for instance " of 7 float32" or " of 7 float32 on a GPU".
[[nodiscard]] std::string described(const ConstBufferView& buffer);
/// The text for the second buffer in the name of a call: ", recv on a GPU", or empty for a buffer on the host.
[[nodiscard]] std::string memory_of(std::string_view role, const ConstBufferView& buffer);
/// The text for the root in the name of a call, for instance ", root 3".
[[nodiscard]] std::string from_root(int root);

/// Names the first element that is not finite in a host buffer, as "nan at element 3"; empty if all are finite.
[[nodiscard]] std::string first_non_finite(const ConstBufferView& buffer);

}  // namespace mn
