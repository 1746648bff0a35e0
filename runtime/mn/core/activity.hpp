/// What this process is doing outside of calls, by its own account, and since when: for the watch over its progress
/// (mn/job/hang_report.hpp has the rules).
///
/// The thread that trains opens and closes scopes and counts iterations; each of these is progress. A watch on another
/// thread asks how long there has been none.
///
/// Invariants:
/// 1. Nothing here waits: a mutex is held for a few assignments.
/// 2. Limits are by state: a step that has never taken longer than 0.1 s says nothing about a validation.
/// 3. Without a scope nothing is known: programs with loops of their own have none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mn {

/// Seconds that ranks may wait in a call which others lack: MN_HANG_SECONDS, or 60; infinite where that is 0. Throws
/// UsageError for anything else.
[[nodiscard]] double call_patience_s();
/// What may take longer than such a call, as files, validation and what a program adds may: ten times that.
[[nodiscard]] inline double work_patience_s() { return 10 * call_patience_s(); }
/// A rank of which nothing is known, outside of calls and scopes, while others wait: thirty times that.
[[nodiscard]] inline double unknown_patience_s() { return 30 * call_patience_s(); }

/// While it lives, the process is in the state `name`; scopes nest, and the innermost counts. One thread.
class ActivityScope {
 public:
  /// The state may take work_patience_s() without progress, and five times its longest so far if that is more.
  explicit ActivityScope(std::string name);
  ~ActivityScope();
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;
};

/// The innermost scope has made a step, such as a minibatch of a validation.
void note_progress();
/// An iteration of training is complete.
void note_iteration(std::int64_t iteration);

/// The whole process stood still for so long (stopped, swapped out): that counts for nothing. Any thread.
void discount_standstill(std::chrono::duration<double> time);

/// What is known of this process at a moment.
struct Activity {
  std::string state;           ///< "training", "validation", …; empty: no scope
  std::int64_t iteration = 0;  ///< the last that is complete
  double silent_s = 0;         ///< seconds without progress
  double limit_s = 0;          ///< that are allowed outside of calls; infinite without a scope
};
/// Any thread.
[[nodiscard]] Activity activity_now();

/// What a rank that is stuck leads to.
enum class HangAction {
  kAbort,   ///< a report, and the end of all ranks
  kReport,  ///< a report
  kOff,     ///< nothing
};
/// kAbort until it is set. Any thread.
void set_hang_action(HangAction action) noexcept;
[[nodiscard]] HangAction hang_action() noexcept;

}  // namespace mn
