/// Runs a step (one run of srun or mpiexec) as a child process, and reads the lines of its standard error.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "supervise/command.hpp"

namespace mn::launcher {

struct StepEnd {
  int status = 0;                                   ///< as in a shell: 128 + the number of the signal that ended it
  std::optional<int> first_failure;                 ///< status of the first failed rank, if srun tells it
  bool asks_for_requeue = false;                    ///< rank 0 printed that the ranks have saved after a signal
  std::string reason;                               ///< first line of a rank that announces the end; empty: none
  std::chrono::steady_clock::time_point failed_at;  ///< time of the line in `reason`, else of the process's end
};

/// Runs the step `command` and returns how it has ended. The step has its own process group; otherwise a signal of the
/// terminal would reach it twice. Meanwhile copies the step's standard error, and calls `look` ten times a second.
///
/// Signals of schedulers (SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2) are passed on to the step: as SIGUSR1 within the
/// first second after the first signal, later unchanged. A signal that repeats within 0.2 seconds is dropped.
///
/// When a rank announces the end, `on_failure` is called. If the launcher (srun or mpiexec) has not ended a second
/// later, the launcher gets SIGTERM. After another second, `cancel` is called, and the launcher gets SIGKILL. Throws
/// Error if the step cannot start.
[[nodiscard]] StepEnd run_step(const Words& command, const std::function<void()>& look,
                               const std::function<void()>& on_failure, const std::function<void()>& cancel);

/// Returns the first signal of a scheduler, which the step also gets; 0 if there was none. From the first call on,
/// signals of schedulers no longer end this process.
[[nodiscard]] int scheduler_signal();

}  // namespace mn::launcher
