/// Small messages in which the ranks of a group ask who is in a call, and say that they give up. CallLimits sends and
/// takes them, from any thread.
///
/// Invariants:
/// 1. They go through a communicator of MPI's of their own, one for all groups of the same ranks in the same order,
///    that is never freed. MPI gives the number of a freed one to the next: what arrives late would be a message of
///    that one, which Open MPI then mixes up with its own.
/// 2. A notice names its group. Whichever group's call receives it, it waits for its own group, also for one that this
///    rank has not made yet; those of groups that have ended are dropped.
/// 3. What is sent is kept for the life of the process: to a rank that is gone it is never sent, and a send cannot be
///    cancelled.
///
/// Cost: for the first group of some ranks a communicator of MPI's. A look for notices is a lock and a probe.
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
  std::int64_t group;      // the ordinal of its name
  std::uint64_t question;  // which of its sender's, or of its receiver's where it answers
  std::uint64_t number;
  std::uint64_t count;
  DType dtype;
  char operation[31];
  char text[256];  // why the rank has given up
};

class NoticeChannel;

/// Those of one group.
class Notices {
 public:
  /// Collective over `comm`, which is borrowed, for the first group of its ranks. `group` has a name of its own.
  Notices(MPI_Comm comm, const GroupName& group);
  ~Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  // Without a wait. Errors are left alone: this rank has an error to tell already.

  void send(int rank, const Notice& notice);
  void send_all(const Notice& notice);
  /// The next that has come, of this kind if one is given.
  [[nodiscard]] bool take(Notice& notice, std::optional<Notice::Kind> kind = {});

 private:
  friend class NoticeChannel;
  NoticeChannel& channel_;
  GroupName group_;
  std::deque<Notice> waiting_;
};

}  // namespace mn
