/// Notices a rank that waits for too long, and has the ranks say where they are.
///
/// Job has one on each rank: a thread that looks once a second at the calls of this process (comm/flight_recorder.hpp)
/// and at its own account of what it does outside of them (core/activity.hpp). It starts a survey over the peer
/// monitor's tree where this rank waits in a call for some seconds while another rank has left main, or where it is
/// stuck: for longer than hang_report.hpp's rules allow. Rank 0 judges the answers by those rules; it writes one line,
/// for a hang below a table of what the ranks do with the stack of one of each kind, and ends the job.
///
/// Invariants:
/// 1. The watch calls neither MPI nor NCCL and opens no file but those of /proc: what hangs cannot stop it.
/// 2. It ends no job: a wait is only the reason to ask. While one goes on, it asks again each minute.
/// 3. Time in which the process stood still, and time under a debugger, does not count.
/// 4. A send that has waited for 10 s gets a line once: it may wait for a rank that sends, too.
/// 5. If no survey comes to an end (no monitor, a tree that is cut), the stuck rank reports by itself.
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
    std::function<void()> on_stuck;      ///< where that is so, and when no survey came to an end in time
    std::function<int()> ranks_left;     ///< that have left main; may be empty
  };
  /// The actions are called on the watch's thread. `own` must outlive it.
  ProgressWatch(OwnState& own, Actions actions);
  ~ProgressWatch();
  ProgressWatch(const ProgressWatch&) = delete;
  ProgressWatch& operator=(const ProgressWatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  void run(const std::stop_token& stop);
  void warn_of_sends();
  void look();

  OwnState& own_;
  Actions actions_;
  int looks_while_due_ = 0;
  int ranks_left_ = 0;
  std::uint64_t last_send_ = 0;  // for which a line was written
  std::jthread thread_;
};

}  // namespace mn
