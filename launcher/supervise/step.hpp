/// A step as a child process; supervise reads its stderr on the way.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <sys/types.h>

#include <mn/core/fd.hpp>

#include "supervise/command.hpp"

namespace mn::launcher {

/// How a step ended.
struct StepEnd {
  int status = 0;                                   ///< as a shell sees it: 128 + number of a signal
  std::optional<int> first_failure;                 ///< status of the first failed rank, if srun tells it
  bool asks_for_requeue = false;                    ///< rank 0 said that the ranks have saved after a signal
  std::string reason;                               ///< first line of a rank that announces the end; empty: none
  std::chrono::steady_clock::time_point failed_at;  ///< time of the line in `reason`, else of the process's end
};

class Step {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts the step in a process group of its own: a terminal's signal to supervise's group would reach it twice.
  /// Throws Error.
  explicit Step(const Words& command);
  /// Copies the step's stderr until the step has ended, and calls `look` ten times a second. Passes on schedulers'
  /// signals (SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2). A signal that repeats within 0.2 seconds is dropped. Signals
  /// within a second from the first signal are passed on as SIGUSR1, later signals as they are. When a rank announces
  /// the end, calls `on_failure`. A launcher that has not ended a second later gets SIGTERM; after another second,
  /// `cancel` is called and the launcher gets SIGKILL.
  [[nodiscard]] StepEnd wait(const std::function<void()>& look, const std::function<void()>& on_failure,
                             const std::function<void()>& cancel);

 private:
  void read_lines(StepEnd& end);
  void press(const StepEnd& end, const std::function<void()>& cancel);

  pid_t process_ = -1;
  Fd stderr_;
  std::string rest_;  // a line without an end
  int pressed_ = 0;   // steps taken against a launcher that does not end
};

/// The first scheduler's signal to supervise; the step gets it, too. 0: none. From the first call on, a scheduler's
/// signal does not end this process.
[[nodiscard]] int scheduler_signal();

}  // namespace mn::launcher
