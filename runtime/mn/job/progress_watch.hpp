/// Notices that a rank waits too long, and then starts a survey, in which all ranks tell their states.
///
/// A thread of each rank looks once a second at the process's calls (comm/flight_recorder.hpp) and at its other work
/// (core/activity.hpp). The thread starts a survey over the peer monitor's tree in two cases: a different rank has left
/// main and this rank has waited in a call for some seconds; or this rank is stuck by the rules of hang_report.hpp.
/// Rank 0 judges the answers and writes a line. If rank 0 finds a hang, it also writes a table of all ranks, with each
/// different stack once, and ends the job.
///
/// 1. The watch calls neither MPI nor NCCL, and opens only files of /proc, so a hang cannot stop it.
/// 2. A long wait alone does not end the job: the watch only starts a survey, once a minute.
/// 3. Time in which the process stood still or was under a debugger does not count as waiting.
/// 4. If a send has waited for 10 s, the watch logs a warning that its receiver may be sending, too.
/// 5. If no survey completes, because there is no monitor or the tree of connections is broken, the rank itself
///    reports.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include <mn/job/rank_state.hpp>

namespace mn {

class ProgressWatch {
 public:
  struct Actions {
    std::function<void()> start_survey;  ///< may be empty
    std::function<void()> on_stuck;      ///< called if no survey is possible, or none completed in time
    std::function<int()> ranks_left;     ///< number of other ranks that have left main; may be empty
  };
  /// Calls the actions on the watch's thread. `own` must outlive the watch.
  ProgressWatch(OwnState& own, Actions actions);
  ~ProgressWatch();

 private:
  using Clock = std::chrono::steady_clock;

  void run(const std::stop_token& stop);
  void warn_of_sends();
  void look();

  OwnState& own_;
  Actions actions_;
  int looks_while_due_ = 0;
  int ranks_left_ = 0;
  std::uint64_t last_send_ = 0;  // the last send with a warning
  std::jthread thread_;
};

}  // namespace mn
