/// What a rank weighs in a step, as StepWeights (step_weights.hpp) has found it.
#pragma once

namespace mn {

/// The mean gradient of the ranks is Σ factorᵣ gᵣ / Σ divisorᵣ. All are in the unit that the ranks agreed on.
struct StepWeight {
  double own = 1;              ///< weight of this rank's loss: its samples / unit
  double divisor = 1;          ///< this rank's part of the sum that the mean divides by: own, but with loss_ranks
  double factor = 1;           ///< by which this rank's gradients are still to be multiplied
  bool assumed_equal = false;  ///< collective calls within backward took all ranks to weigh the same
};

}  // namespace mn
