/// Finds the hosts that can still run a step (a run of srun or mpiexec).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

#include "supervise/command.hpp"

namespace mn::launcher {

/// Starts a process on all hosts at once, with srun or ssh. A host has four seconds to answer. After the first answer,
/// the limit is four times the time of the slowest answer so far, but at least two seconds.
class HostProbes {
 public:
  HostProbes(Words hosts, bool by_srun);
  ~HostProbes();
  HostProbes(const HostProbes&) = delete;
  HostProbes& operator=(const HostProbes&) = delete;

  /// Notes which hosts have answered. Call look() often, because the time limit depends on when the answers come.
  void look();
  /// Waits for answers until the time limit. Returns the hosts that have not answered.
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

/// Cancels the step `name` of the Slurm job `job` if squeue lists it. squeue and scancel may take five seconds each.
void cancel_step(const std::string& job, const std::string& name);

}  // namespace mn::launcher
