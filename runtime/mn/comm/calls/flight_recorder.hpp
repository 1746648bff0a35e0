/// The last calls of this process's communicators, to be written where a job hangs or ends badly.
///
/// CallCheck records each call of a Communicator; mn::Job, or a signal handler, writes them: one JSON document a line,
/// first the process, then its calls. `mnreport --calls` reads the files of all ranks.
///
/// Invariants:
/// 1. A thread that records takes no lock: one addition picks a slot of the ring, one exchange takes it. Nobody waits
///    for a reader.
/// 2. A call that has not ended keeps its slot, however many others follow. So the ring holds every call under way, and
///    of the others the last ones.
/// 3. `entry` changes before and after a slot's other fields do. A reader that sees the same entry twice has read one
///    call whole.
/// 4. write_calls() calls async-signal-safe functions alone, and allocates nothing.
/// 5. Ranks name a group alike: by the rank, in MPI_COMM_WORLD, of its first rank, and how many groups that had made.
///    They count its collective calls alike, because all make the same ones in the same order.
///
/// Cost: two readings of the clock and two atomic operations for a call, some 75 ns; 32 KiB for a process.
/// Source: sequence locks, as in H.-J. Boehm, "Can seqlocks get along with programming language memory models?", 2012.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mn/core/buffer.hpp>

namespace mn {

/// A communicator's group of ranks in records.
struct GroupName {
  int leader = 0;   ///< rank in MPI_COMM_WORLD of its first rank; -1: not all ranks are of MPI_COMM_WORLD
  int ordinal = 0;  ///< which of the groups that the leader has made
  int rank = 0;     ///< this process's, within the group
  int size = 1;     ///< ranks of the group
};

/// What a call is, as ranks can compare it.
struct CallName {
  std::string_view operation;  ///< a literal: it is kept
  std::uint64_t number = 0;    ///< which collective call of the group, from 1; 0 for a message between two ranks
  std::uint64_t count = 0;     ///< elements
  DType dtype = DType::kUInt8;
  int peer = -1;           ///< the other rank of a message; -1: none, or any
  int world_peer = -1;     ///< the same in MPI_COMM_WORLD
  bool on_device = false;  ///< the call ends when it is enqueued there
};

/// A call in the ring, from construction to destruction; where an exception ends it, it counts as failed.
class RecordedCall {
 public:
  RecordedCall(const GroupName& group, const CallName& call) noexcept;
  ~RecordedCall();
  RecordedCall(const RecordedCall&) = delete;
  RecordedCall& operator=(const RecordedCall&) = delete;

 private:
  struct Slot* slot_;  // null: 256 calls are under way
  int exceptions_;     // that unwind already
};

/// While it lives, the main thread waits for a call that another thread makes.
class BackgroundWait {
 public:
  BackgroundWait() noexcept;
  ~BackgroundWait();
  BackgroundWait(const BackgroundWait&) = delete;
  BackgroundWait& operator=(const BackgroundWait&) = delete;
};

/// While it lives, a message that isend() or irecv() has begun, and for which nobody waits yet, is under way.
class MessageInBackground {
 public:
  MessageInBackground() noexcept;
  ~MessageInBackground();
  MessageInBackground(const MessageInBackground&) = delete;
  MessageInBackground& operator=(const MessageInBackground&) = delete;
};
/// Whether this process has one. Any thread.
[[nodiscard]] bool has_messages_in_background() noexcept;

/// A call that has not ended.
struct CallUnderWay {
  std::uint64_t record = 0;  ///< its number in the ring: older calls have smaller ones
  std::string operation;
  std::string text;  ///< "allreduce (call 12, 1000 float32)", as `mnreport --calls` names it
  int leader = 0;    ///< its group's, as `ordinal`
  int ordinal = 0;
  std::uint64_t number = 0;
  int world_peer = -1;  ///< as CallName's
  double seconds = 0;   ///< since it began
  bool on_main_thread = false;
  bool blocks = false;    ///< the main thread waits for its end
  bool enqueued = false;  ///< on the device, for which the main thread may wait
};
/// All of this process. Any thread.
[[nodiscard]] std::vector<CallUnderWay> calls_under_way();
/// Of these the main thread's, else the oldest, such as one in the background, else the call that the main thread has
/// enqueued last if it has made none since: it may wait for the device. Any thread.
[[nodiscard]] std::optional<CallUnderWay> call_under_way();
/// Calls that this process has begun. Any thread.
[[nodiscard]] std::uint64_t calls_begun() noexcept;

/// Who writes, for the first line of what write_calls() writes. Before and after, set_calls_folder() may be called.
void name_calls_writer(int rank, int size, const std::string& host);
/// Where write_calls() writes to: FOLDER/rank-0003.jsonl; "stderr": to stderr; empty: nowhere.
void set_calls_folder(const std::string& folder);
/// Writes the ring, and why it was written; what an earlier call has written is replaced. Any thread, any signal
/// handler; errors are ignored.
void write_calls(std::string_view reason) noexcept;

}  // namespace mn
