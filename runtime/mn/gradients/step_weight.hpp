/// A rank's weight in a step, which StepWeights (step_weights.hpp) computes.
#pragma once

namespace mn {

/// The mean gradient of the ranks is Σ factorᵣ gᵣ / Σ divisorᵣ, where gᵣ is the gradient of rank r. All these weights
/// are numbers of samples, divided by a unit: a number of samples on which the ranks have agreed.
struct StepWeight {
  double own = 1;              ///< weight of this rank's loss: its samples / unit
  double divisor = 1;          ///< this rank's part of Σ divisorᵣ: equals `own`, except with loss_ranks
  double factor = 1;           ///< multiplies this rank's gradients at the step; losses may have had a weight before
  bool assumed_equal = false;  ///< collective calls within backward assumed that all ranks weigh the same
};

}  // namespace mn
