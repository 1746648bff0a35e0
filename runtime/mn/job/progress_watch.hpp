/// Notices a rank that makes no progress, and says where every rank is.
///
/// Job has one on each rank: a thread that looks at this process's account of itself (mn/core/activity.hpp) once a
/// second. A rank that is stuck starts a survey over the peer monitor's tree; rank 0 writes one table of what the ranks
/// do, with the stack of one of each kind, and ends the job.
///
/// Invariants:
/// 1. The watch calls neither MPI nor NCCL and opens no file but those of /proc: what hangs cannot stop it.
/// 2. While a rank takes long in a state that may take longer, the others only wait for it: that is reported once, and
///    the job goes on.
/// 3. Time in which the process stood still, and time under a debugger, does not count.
/// 4. A send that has waited for 10 s gets a line once: it may wait for a rank that sends, too.
/// 5. If no survey comes to an end (no monitor, a tree that is cut), the stuck rank reports by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <mn/job/failure.hpp>
#include <mn/job/peer_monitor.hpp>
#include <mn/job/thread_stack.hpp>

namespace mn {

/// What ranks do, as the survey's texts: a list of kinds of ranks.
[[nodiscard]] std::string describe_this_rank(const Speaker& speaker, const WatchedThread& watched);
/// The same for several ranks: those that do the same become one kind, with the stack of the first.
[[nodiscard]] std::string merge_descriptions(const std::vector<std::string>& texts);

/// What to write of them.
struct HangReport {
  std::string table;     ///< lines, the stuck ones first, then stacks
  std::string message;   ///< one line; empty: no rank is stuck
  bool is_over = false;  ///< no rank is in a state that may take longer
};
/// `ranks`: of the job; those that are in no text have not answered.
[[nodiscard]] HangReport hang_report(const std::string& text, int ranks);

class ProgressWatch {
 public:
  /// `start_survey` may be empty. `on_stuck` is called where that is so, and when no survey came to an end in time.
  /// Both on the watch's thread.
  ProgressWatch(std::function<void()> start_survey, std::function<void()> on_stuck);
  ~ProgressWatch();
  ProgressWatch(const ProgressWatch&) = delete;
  ProgressWatch& operator=(const ProgressWatch&) = delete;

 private:
  void run(const std::stop_token& stop);
  void warn_of_sends();
  void look();

  std::function<void()> start_survey_;
  std::function<void()> on_stuck_;
  int looks_while_stuck_ = 0;
  std::uint64_t last_send_ = 0;  // for which a line was written
  std::jthread thread_;
};

}  // namespace mn
