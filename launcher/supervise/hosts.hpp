/// Which hosts can still run a step (a run of srun or mpiexec).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

#include "supervise/command.hpp"

namespace mn::launcher {

/// Starts a process on all hosts at once, by srun or by ssh. A host has four seconds to answer. Once a host has
/// answered, the limit is four times the slowest answer, but at least two and at most four seconds.
class HostProbes {
 public:
  /// Starts the processes.
  HostProbes(Words hosts, bool by_srun);
  ~HostProbes();
  HostProbes(const HostProbes&) = delete;
  HostProbes& operator=(const HostProbes&) = delete;

  /// Notes the hosts that have answered. Call look() often, because the limit depends on how long the answers took.
  void look();
  /// Waits for answers up to the limit, and returns the hosts that did not answer in time.
  [[nodiscard]] Words lost();

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { kPending, kAnswered, kLost };
  struct Probe {
    std::string host;
    pid_t process;  // leader of its process group
    State state;
  };
  [[nodiscard]] Clock::duration patience() const;

  Clock::time_point begin_ = Clock::now();
  Clock::duration slowest_{};  // time of the slowest answer; 0: no answer yet
  std::vector<Probe> probes_;
};

/// Cancels the step `name` of `job` if squeue shows it. squeue and scancel each have five seconds at most.
void cancel_step(const std::string& job, const std::string& name);

}  // namespace mn::launcher
