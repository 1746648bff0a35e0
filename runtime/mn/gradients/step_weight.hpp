/// What a rank weighs in a step, as StepWeights (step_weights.hpp) has found it.
#pragma once

namespace mn {

/// The mean gradient of the ranks is Σ factorᵣ gᵣ / Σ countedᵣ. All are in units that the ranks agreed on.
struct StepWeight {
  double own = 1;              ///< of this rank's loss: its samples / unit
  double counted = 1;          ///< what the mean divides by; own, unless other ranks' losses count (loss_ranks)
  double factor = 1;           ///< by which this rank's gradients are still to be multiplied
  bool assumed_equal = false;  ///< collective calls within backward took all ranks to weigh the same
};

}  // namespace mn
