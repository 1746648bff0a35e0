/// The process's own account of its work outside of calls, for the watch over its progress (rules:
/// mn/job/hang_report.hpp).
///
/// The training thread opens and closes scopes and counts iterations; each of these is progress. A watch on another
/// thread asks how long there has been no progress.
///
/// Invariants:
/// 1. No function waits: a mutex is held for a few assignments.
/// 2. Limits are by state: a step that has never taken longer than 0.1 s says nothing about a validation.
/// 3. Outside of every scope the limit is infinite: programs with loops of their own open no scopes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mn {

/// Seconds that a rank may wait in a call for missing ranks: MN_HANG_SECONDS, default 60; 0: infinity. Throws
/// UsageError.
[[nodiscard]] double call_patience_s();
/// Seconds without progress that files, validation and a program's own work may take.
[[nodiscard]] inline double work_patience_s() { return 10 * call_patience_s(); }
/// Patience with an awaited rank outside of calls and scopes, in seconds.
[[nodiscard]] inline double unknown_patience_s() { return 30 * call_patience_s(); }

/// While an object lives, the process is in the state `name`. Scopes nest, and the innermost counts. One thread.
class ActivityScope {
 public:
  /// Limit without progress: work_patience_s(), or five times the longest so far in this state if that is more.
  explicit ActivityScope(std::string name);
  ~ActivityScope();
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;
};

/// The innermost scope has made a step, such as a minibatch of a validation.
void note_progress();
/// An iteration of training is complete.
void note_iteration(std::int64_t iteration);

/// The whole process stood still (stopped, swapped out) for `time`, which does not count as silence. Any thread.
void discount_standstill(std::chrono::duration<double> time);

struct Activity {
  std::string state;           ///< "training", "validation", …; empty: no scope
  std::int64_t iteration = 0;  ///< last complete iteration
  double silent_s = 0;         ///< seconds without progress
  double limit_s = 0;          ///< seconds allowed without progress outside of calls; infinite without a scope
};
/// The present account. Any thread.
[[nodiscard]] Activity activity_now();

enum class HangAction {
  kAbort,   ///< report it and end all ranks
  kReport,  ///< report it
  kOff,     ///< ignore it
};
/// Sets the action, by default kAbort. Any thread.
void set_hang_action(HangAction action) noexcept;
[[nodiscard]] HangAction hang_action() noexcept;

}  // namespace mn
