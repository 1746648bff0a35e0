/// Runs a step (one run of srun or mpiexec) as a child process, and reads the lines of its standard error.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "supervise/command.hpp"

namespace mn::launcher {

/// How a step has ended.
struct StepEnd {
  int status = 0;                                   ///< as in a shell: 128 + the number of the signal that ended it
  std::optional<int> first_failure;                 ///< status of the first failed rank, if srun tells it
  bool asks_for_requeue = false;                    ///< rank 0 printed that the ranks have saved after a signal
  std::string reason;                               ///< first line of a rank that announces the end; empty: none
  std::chrono::steady_clock::time_point failed_at;  ///< time of the line in `reason`, else of the process's end
};

/// Runs the step `command` and returns how the step has ended. The step has a process group of its own, because
/// otherwise a signal of the terminal would reach the step twice. Until the step has ended, its standard error is
/// copied, and `look` is called ten times a second.
///
/// Signals of schedulers (SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2) are passed on to the step. Within the first second
/// after the first signal, SIGUSR1 is sent in place of each signal; later signals are passed on unchanged. A signal
/// that repeats within 0.2 seconds is dropped.
///
/// When a rank announces the end, `on_failure` is called. If the launcher (srun or mpiexec) has not ended a second
/// later, the launcher gets SIGTERM. After another second, `cancel` is called and the launcher gets SIGKILL. Throws
/// Error if the step cannot start.
[[nodiscard]] StepEnd run_step(const Words& command, const std::function<void()>& look,
                               const std::function<void()>& on_failure, const std::function<void()>& cancel);

/// Returns the first signal that a scheduler has sent, and that the step gets, too; 0 if there was none. From the first
/// call on, signals of schedulers no longer end this process.
[[nodiscard]] int scheduler_signal();

}  // namespace mn::launcher
