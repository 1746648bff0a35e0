/// Which hosts still take a step.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

#include "supervise/command.hpp"

namespace mn::launcher {

/// Tries whether hosts take a step, all at once: by srun, else by ssh. A host has four seconds, or less where others
/// have answered: four times as long as the slowest of these, at least two seconds.
class HostProbes {
 public:
  /// Starts them.
  HostProbes(Words hosts, bool by_srun);
  ~HostProbes();
  HostProbes(const HostProbes&) = delete;
  HostProbes& operator=(const HostProbes&) = delete;

  /// Notes which hosts have answered by now; for others' time, as said above, it is to be called now and then.
  void look();
  /// The hosts on which nothing could be started in that time, which it waits for.
  [[nodiscard]] Words lost();

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { kPending, kAnswered, kLost };
  struct Probe {
    std::string host;
    pid_t process;  // the leader of its process group
    State state;
  };
  [[nodiscard]] bool is_pending() const;
  [[nodiscard]] Clock::duration patience() const;

  Clock::time_point begin_ = Clock::now();
  Clock::duration slowest_{};  // of the answers; 0: there is none
  std::vector<Probe> probes_;
};

/// Cancels the step of the name, if squeue shows it. Waits for five seconds at most.
void cancel_step(const std::string& job, const std::string& name);

}  // namespace mn::launcher
