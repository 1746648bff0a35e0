/// Where a rank's time goes.
#pragma once

#include <cstdint>

namespace mn {

/// Where the time of one step went on this rank. The sum is the step without extensions.
struct StepTimes {
  double data_s = 0;           ///< seconds of waiting for the minibatch
  double compute_s = 0;        ///< seconds of forward, backward, hooks and update
  double communication_s = 0;  ///< exposed communication time in seconds: waiting for the network and other ranks
  std::uint64_t bytes = 0;     ///< passed to collectives
};

/// What saves beside training take on this rank, in seconds.
struct SavingTimes {
  double stalled_s = 0;  ///< in which training waited for them
  double copied_s = 0;   ///< in which a thread copied what is on the CPU
};

}  // namespace mn
