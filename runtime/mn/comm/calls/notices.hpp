/// Small messages between the ranks of a group: questions about calls, answers, and the news that a rank gives up.
/// These messages are called notices. CallTimeouts sends and takes them, on any thread.
///
/// Invariants:
/// 1. Notices travel on an MPI communicator that carries nothing else. All groups with the same ranks in the same order
///    share it. It is never freed, because MPI would reuse its context id, and late notices would arrive in a new
///    communicator.
/// 2. A rank may receive a notice while it is in a call of another group. The rank then keeps the notice for the group
///    that the notice names, even if the rank has not made this group yet. Notices of ended groups are dropped.
/// 3. A sent notice is kept for the life of the process: a send to a dead rank never completes and cannot be cancelled,
///    so its memory cannot be freed.
///
/// Cost: one MPI communicator for each set of ranks, made with their first group. Each time a rank looks for notices,
/// it takes a lock and calls MPI_Iprobe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include <mpi.h>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

struct Notice {
  enum class Kind : std::uint32_t { kQuestion, kAnswer, kGaveUp };

  Notice() = default;
  Notice(Kind kind, int rank, std::uint64_t question, const CallName& call, std::string_view why);

  Kind kind;
  std::int32_t rank;
  std::int64_t group = 0;  // ordinal of the group
  std::uint64_t question;  // counted by the rank that asked
  std::uint64_t number;
  std::uint64_t count;
  DType dtype;
  char operation[31] = {};
  char text[256] = {};  // why the rank has given up
};

class NoticeChannel;

class Notices {
 public:
  /// Collective over `comm` if these ranks had no group yet. The caller keeps and frees `comm`. No other group may have
  /// the name `group`.
  Notices(MPI_Comm comm, const GroupName& group);
  ~Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  // send() and send_all() wait for no rank, and ignore errors: this rank already has an error to report.

  void send(int rank, const Notice& notice);
  void send_all(const Notice& notice);
  /// Writes the next notice (of the given `kind`, if any) to `notice`. False if no such notice has arrived.
  [[nodiscard]] bool take(Notice& notice, std::optional<Notice::Kind> kind = {});

 private:
  friend class NoticeChannel;
  NoticeChannel& channel_;
  GroupName group_;
  std::deque<Notice> waiting_;
};

}  // namespace mn
