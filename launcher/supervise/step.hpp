/// A step as a child process, whose stderr is read on its way.
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
  int status = 0;                                   ///< as a shell sees it: 128 + the signal's number for a signal
  std::optional<int> first_failure;                 ///< likewise, of the first rank that failed, if srun tells of it
  bool asks_for_requeue = false;                    ///< rank 0 said that the ranks have saved because of a signal
  std::string reason;                               ///< a rank's line that announces the end; empty: there was none
  std::chrono::steady_clock::time_point failed_at;  ///< when that line came, or the process ended
  std::chrono::steady_clock::time_point ended_at;
};

class Step {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts it, in a process group of its own: a signal to ours, as a terminal's, would else reach it twice. Throws
  /// Error if that fails.
  explicit Step(const Words& command);
  /// Copies its stderr to ours until it has ended, and calls `look` ten times a second. Passes on signals of schedulers
  /// (SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2), each once within 0.2 seconds, those within a second from the first as
  /// SIGUSR1. When a rank announces the end, calls `on_failure`; the launcher then has a second to end, gets SIGTERM,
  /// and a second later SIGKILL, when `cancel` is called.
  [[nodiscard]] StepEnd wait(const std::function<void()>& look, const std::function<void()>& on_failure,
                             const std::function<void()>& cancel);

 private:
  void read_lines(StepEnd& end);
  void press(const StepEnd& end, const std::function<void()>& cancel);

  pid_t process_ = -1;
  Fd stderr_;
  std::string rest_;  // a line that has not ended
  int pressed_ = 0;   // steps taken against a launcher that does not end
};

/// The first signal of a scheduler that this process has had, which steps get too; 0: none. From the first call on this
/// process outlives them.
[[nodiscard]] int scheduler_signal();

}  // namespace mn::launcher
