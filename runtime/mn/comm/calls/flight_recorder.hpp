/// Records the last calls of the process's communicators. The records are written to a file when a job hangs or fails.
///
/// CallCheck records each call. mn::Job, or a signal handler, writes one JSON document per line: the first line
/// describes the process, and each further line one call. `mnreport --calls` reads the files of all ranks.
///
/// Invariants:
/// 1. Recording takes no lock. The records lie in a ring of 256 slots: one atomic addition picks a slot, and one atomic
///    compare-and-exchange takes the slot.
/// 2. A call keeps its slot until it has ended. Therefore the ring holds every call under way and the last ended calls.
/// 3. A writer changes a slot's `entry` before and after it changes the slot's other fields. If a reader finds an equal
///    `entry` before and after reading, the reader has read a whole call.
/// 4. write_calls() calls only async-signal-safe functions, and allocates nothing.
/// 5. All ranks give a group of ranks the same name, and give the group's collective calls the same numbers. The name
///    consists of two numbers: the rank of the group's first rank in MPI_COMM_WORLD (leader), and the number of the
///    group among those that this rank leads (ordinal).
///
/// Cost of a call: two readings of the clock and two atomic operations, some 75 ns. Memory: 32 KiB per process. Source:
/// sequence locks, as in H.-J. Boehm, "Can seqlocks get along with programming language memory models?", 2012.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mn/comm/mpi/progress.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

/// Name of a communicator's group in records, equal on all ranks of the group.
struct GroupName {
  int leader = 0;   ///< rank in MPI_COMM_WORLD of the first rank; -1: some rank is not in MPI_COMM_WORLD
  int ordinal = 0;  ///< number of the group among the leader's groups
  int rank = 0;     ///< rank of the process within the group
  int size = 1;     ///< number of ranks of the group
};

/// A call's operation and arguments, as records show them.
struct CallName {
  std::string_view operation;  ///< must be a literal, because only its address is stored
  std::uint64_t number = 0;    ///< number of the collective call in the group, from 1; 0: a message between two ranks
  std::uint64_t count = 0;     ///< elements
  DType dtype = DType::kUInt8;
  int peer = -1;  ///< the other rank of a message; -1: no rank, or any rank
  int world_peer = -1;
  bool on_device = false;  ///< the record ends when the call's work is enqueued on the device
};

/// Records a call while the object lives. If an exception destroys the object, the call counts as failed.
class RecordedCall {
 public:
  RecordedCall(const GroupName& group, const CallName& call) noexcept;
  ~RecordedCall();
  RecordedCall(const RecordedCall&) = delete;
  RecordedCall& operator=(const RecordedCall&) = delete;

 private:
  struct Slot* slot_;  // null if 256 calls were under way, so the call has no record
  int exceptions_;     // exceptions that were unwinding the stack at construction
};

/// While a BackgroundWait lives, the main thread waits for a call that a different thread makes.
using BackgroundWait = LiveCount<struct BackgroundWaitTag>;
/// While one lives, a message of isend() or irecv() is under way, and the program has not called its wait() yet.
using MessageInBackground = LiveCount<struct MessageInBackgroundTag>;

struct CallUnderWay {
  std::uint64_t record = 0;  ///< number of the call's record; older calls have smaller numbers
  std::string operation;
  std::string text;  ///< "allreduce (call 12, 1000 float32)", as `mnreport --calls` names it
  int leader = 0;    ///< GroupName::leader of the call's group
  int ordinal = 0;
  std::uint64_t number = 0;
  int world_peer = -1;  ///< CallName::world_peer
  double seconds = 0;   ///< since the beginning of the call
  bool on_main_thread = false;
  bool blocks = false;    ///< the main thread waits for the end of the call
  bool enqueued = false;  ///< enqueued on the device; the main thread may wait for the device
};
/// Returns all calls under way in the process. Any thread may call the function.
[[nodiscard]] std::vector<CallUnderWay> calls_under_way();
/// Returns the main thread's call under way. Without such a call, returns the oldest call of a different thread.
/// Without any, returns the last call if it was enqueued on the device. Any thread may call the function.
[[nodiscard]] std::optional<CallUnderWay> call_under_way();
/// Number of calls that the process has begun. May be called on any thread.
[[nodiscard]] std::uint64_t calls_begun() noexcept;

void name_calls_writer(int rank, int size, const std::string& host);
/// Makes write_calls() write to FOLDER/rank-0003.jsonl (on rank 3), or to stderr if `folder` is "stderr". If `folder`
/// is empty, write_calls() writes nothing.
void set_calls_folder(const std::string& folder);
/// Replaces the file chosen by set_calls_folder() with `reason` and the recorded calls. Safe on any thread and in
/// signal handlers. Errors are ignored.
void write_calls(std::string_view reason) noexcept;

}  // namespace mn
