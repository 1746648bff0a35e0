/// The times of a rank.
#pragma once

#include <cstdint>

namespace mn {

/// A rank's times of a step. Their sum is the step without extensions.
struct StepTimes {
  double data_s = 0;           ///< seconds of waiting for the minibatch
  double compute_s = 0;        ///< seconds of forward, backward, hooks and update
  double communication_s = 0;  ///< seconds of exposed communication: waits for the network and for slower ranks
  std::uint64_t bytes = 0;     ///< bytes passed to collectives
};

}  // namespace mn
