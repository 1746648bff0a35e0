/// Which hosts still take a step.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

#include "supervise/command.hpp"

namespace mn::launcher {

/// Tries all hosts at once, by srun or by ssh. A host has four seconds to answer. Once other hosts have answered, the
/// limit is four times the slowest answer, within two to four seconds.
class HostProbes {
 public:
  /// Starts the tries.
  HostProbes(Words hosts, bool by_srun);
  ~HostProbes();
  HostProbes(const HostProbes&) = delete;
  HostProbes& operator=(const HostProbes&) = delete;

  /// Notes the hosts that have answered by now. Call it now and then: the patience depends on the times of answers.
  void look();
  /// Waits for the tries, and returns the hosts that did not answer in time.
  [[nodiscard]] Words lost();

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { kPending, kAnswered, kLost };
  struct Probe {
    std::string host;
    pid_t process;  // leader of its process group
    State state;
  };
  [[nodiscard]] bool is_pending() const;
  [[nodiscard]] Clock::duration patience() const;

  Clock::time_point begin_ = Clock::now();
  Clock::duration slowest_{};  // slowest answer; 0: none yet
  std::vector<Probe> probes_;
};

/// Cancels the step `name` of `job` if squeue shows it. squeue and scancel each have five seconds at most.
void cancel_step(const std::string& job, const std::string& name);

}  // namespace mn::launcher
