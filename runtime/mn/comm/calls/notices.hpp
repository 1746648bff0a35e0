/// Small messages between the ranks of a group: questions about calls, answers, and the news that a rank gives up.
/// CallLimits sends and takes notices, on any thread.
///
/// Invariants:
/// 1. Notices travel through their own communicator of MPI, shared by all groups of equal ranks in equal order, and
///    never freed: MPI gives the number of a freed communicator to the next, which would receive late notices.
/// 2. A rank may receive a notice in a call of another group, and keeps it for the named group, even before the rank
///    has made that group; notices of ended groups are dropped.
/// 3. A sent notice is kept for the life of the process: a send to a dead rank never completes, and cannot be
///    cancelled.
///
/// Cost: one communicator of MPI for the first group of some ranks. A look for notices is a lock and a probe.
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
  std::int64_t group;      // ordinal of the group
  std::uint64_t question;  // number of the question among those of the asking rank
  std::uint64_t number;
  std::uint64_t count;
  DType dtype;
  char operation[31];
  char text[256];  // why the rank has given up
};

class NoticeChannel;

class Notices {
 public:
  /// Collective over `comm`, which is borrowed, for the first group of its ranks. `group` must be a name of its own.
  Notices(MPI_Comm comm, const GroupName& group);
  ~Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  // None of these waits, and errors are ignored: the rank has an error to report already.

  void send(int rank, const Notice& notice);
  void send_all(const Notice& notice);
  /// Takes the next notice, of `kind` if given; false if none has arrived.
  [[nodiscard]] bool take(Notice& notice, std::optional<Notice::Kind> kind = {});

 private:
  friend class NoticeChannel;
  NoticeChannel& channel_;
  GroupName group_;
  std::deque<Notice> waiting_;
};

}  // namespace mn
