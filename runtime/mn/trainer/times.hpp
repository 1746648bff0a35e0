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

/// A rank's times of saves beside training.
struct SavingTimes {
  double stalled_s = 0;  ///< seconds of training's waits for saves
  double copied_s = 0;   ///< seconds of copies on the CPU beside training
};

}  // namespace mn
