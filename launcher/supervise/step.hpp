/// Runs a step, one run of srun or mpiexec, as a child process. supervise copies the step's stderr and reads its lines.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "supervise/command.hpp"

namespace mn::launcher {

/// How a step ended.
struct StepEnd {
  int status = 0;                                   ///< as in a shell: 128 + the number of the signal that ended it
  std::optional<int> first_failure;                 ///< status of the first failed rank, if srun tells it
  bool asks_for_requeue = false;                    ///< rank 0 printed that the ranks have saved after a signal
  std::string reason;                               ///< first line of a rank that announces the end; empty: none
  std::chrono::steady_clock::time_point failed_at;  ///< time of the line in `reason`, else of the process's end
};

/// Runs `command` in a process group of its own: otherwise a terminal's signal to supervise's group would reach the
/// step twice. Copies the step's stderr until the step has ended, and calls `look` ten times a second. Passes on
/// schedulers' signals (SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2). A signal that repeats within 0.2 seconds is
/// dropped. Signals within the first second after the first signal are passed on as SIGUSR1; later signals are passed
/// on unchanged. When a rank announces the end, calls `on_failure`. If the launcher (srun or mpiexec) has not ended a
/// second later, it gets SIGTERM. After another second, `cancel` is called and the launcher gets SIGKILL. Throws Error
/// if the step cannot start.
[[nodiscard]] StepEnd run_step(const Words& command, const std::function<void()>& look,
                               const std::function<void()>& on_failure, const std::function<void()>& cancel);

/// The first signal that a scheduler sent to supervise; 0 if there was none. The step gets the signal, too. After the
/// first call of this function, schedulers' signals no longer end this process.
[[nodiscard]] int scheduler_signal();

}  // namespace mn::launcher
