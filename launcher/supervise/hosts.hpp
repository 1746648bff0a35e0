/// Which hosts still take a step.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "supervise/command.hpp"

namespace mn::launcher {

/// Tries whether hosts take a step, all at once: by srun, else by ssh.
class HostProbes {
 public:
  /// Starts them.
  HostProbes(Words hosts, bool by_srun);
  /// The hosts on which nothing could be started within four seconds. Once.
  [[nodiscard]] Words lost();

 private:
  Words hosts_;
  std::vector<pid_t> probes_;
};

/// Cancels the step of the name, if squeue shows it. Waits for five seconds at most.
void cancel_step(const std::string& job, const std::string& name);

}  // namespace mn::launcher
