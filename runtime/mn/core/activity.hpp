/// What this process is doing, by its own account, and since when: for the watch over its progress (mn::Job's).
///
/// The thread that trains opens and closes scopes and counts iterations; each of these is progress. A watch on another
/// thread asks how long there has been none.
///
/// Invariants:
/// 1. Nothing here waits: a mutex is held for a few assignments.
/// 2. Limits are by state: a step that has never taken longer than 0.1 s says nothing about a validation.
/// 3. Without a scope, nothing is watched: programs with loops of their own have none.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace mn {

/// MN_HANG_SECONDS, which replaces the patience of every state; 0: nothing is ever stuck. No value: unset. Throws
/// UsageError for anything else.
[[nodiscard]] std::optional<std::int64_t> hang_seconds();

/// While it lives, the process is in the state `name`; scopes nest, and the innermost counts. One thread.
class ActivityScope {
 public:
  /// `patience` is how long the state may take without progress, and five times its longest so far if that is more.
  /// Until it has made a first step, or was left, and while it is in no communicator call, it may take `first` if that
  /// is more.
  explicit ActivityScope(std::string name, std::chrono::seconds patience = kPatience,
                         std::chrono::seconds first = std::chrono::seconds(0));
  ~ActivityScope();
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

  static constexpr std::chrono::seconds kPatience{60};
  static constexpr std::chrono::seconds kFirstStep{300};     ///< for what computes: its speed is not known yet
  static constexpr std::chrono::seconds kLongPatience{600};  ///< for files, and for what a program adds
};

/// The innermost scope has made a step, such as a minibatch of a validation.
void note_progress();
/// An iteration of training is complete.
void note_iteration(std::int64_t iteration);

/// The whole process stood still for so long (stopped, swapped out): that counts for nothing. Any thread.
void discount_standstill(std::chrono::duration<double> time);

/// What is known of this process at a moment.
struct Activity {
  std::string state;           ///< "training", "validation", …; empty: no scope, which is never stuck
  std::string call;            ///< what the source of set_call_source() says; may be empty
  std::int64_t iteration = 0;  ///< the last that is complete
  double silent_s = 0;         ///< seconds without progress
  double limit_s = 0;          ///< that are allowed

  [[nodiscard]] bool is_stuck() const noexcept { return !state.empty() && silent_s > limit_s; }
};
/// Any thread.
[[nodiscard]] Activity activity_now();

/// Gives the text of the communicator call that this process is in, with its number; empty outside of calls. It is
/// called by any thread while the process hangs, so it must not wait for anything. A null pointer ends it.
void set_call_source(std::string (*source)());

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
