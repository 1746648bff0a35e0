/// Keeps an account of what the process does outside of communicator calls. The progress watch
/// (mn/job/progress_watch.hpp) reads the account to notice a hang; its rules are in mn/job/hang_report.hpp.
///
/// The training thread opens and closes scopes (ActivityScope) and counts iterations; each of these events is progress.
/// The watch runs on a different thread and asks how long there has been no progress.
///
/// Invariants:
/// 1. No function waits long, because the mutex is held only for a few assignments.
/// 2. Each state, for example "training", has its own limit for the time without progress, because the times of
///    training steps say nothing about the time of a validation.
/// 3. Outside of all scopes this limit is infinite, because a program with a training loop of its own opens no scopes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mn {

/// Seconds that a rank may wait in a communicator call for missing ranks: the value of MN_HANG_SECONDS, by default 60.
/// Returns infinity if the value is 0. Throws UsageError if the value is out of range.
[[nodiscard]] double call_patience_s();
/// Seconds without progress that are allowed while the process uses files, validates, or does a program's own work.
[[nodiscard]] inline double work_patience_s() { return 10 * call_patience_s(); }
/// Seconds that a rank may wait in a communicator call for a rank that is in no call and in no scope.
[[nodiscard]] inline double unknown_patience_s() { return 30 * call_patience_s(); }

/// While an ActivityScope lives, the process is in the state `name`, for example "training". Scopes may be nested, and
/// the innermost scope sets the state. Only one thread may open scopes.
class ActivityScope {
 public:
  /// The state may last, without progress, for the larger of work_patience_s() and five times its longest time without
  /// progress so far.
  explicit ActivityScope(std::string name);
  ~ActivityScope();
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;
};

/// Records a step in the work of the innermost scope, for example a minibatch of a validation.
void note_progress();
void note_iteration(std::int64_t iteration);

/// Records that the process stood still (stopped, swapped out) for `time`, which does not count as time without
/// progress. Any thread may call the function.
void discount_standstill(std::chrono::duration<double> time);

struct Activity {
  std::string state;           ///< "training", "validation", …; empty: no scope
  std::int64_t iteration = 0;  ///< number of the last complete iteration
  double silent_s = 0;         ///< seconds without progress
  double limit_s = 0;          ///< seconds allowed without progress outside of calls; infinite without a scope
};
[[nodiscard]] Activity activity_now();

enum class HangAction {
  kAbort,   ///< report the hang and end all ranks
  kReport,  ///< report the hang
  kOff,     ///< ignore the hang
};
/// Sets what happens if the process hangs; by default kAbort. Any thread may call the function.
void set_hang_action(HangAction action) noexcept;
[[nodiscard]] HangAction hang_action() noexcept;

}  // namespace mn
