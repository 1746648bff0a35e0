/// Adam (Kingma & Ba 2015, arXiv:1412.6980) whose update is one pass over memory.
///
/// libtorch's fused kernel updates all parameters of one device and dtype in one call. It reads and writes each
/// parameter once, where torch::optim::Adam makes a pass for each term.
#pragma once

#include <vector>

#include <torch/optim/adam.h>

namespace mn {

/// Replaces torch::optim::Adam: same options, same state, also in a checkpoint, and the same results to rounding.
class FusedAdam : public torch::optim::Adam {
 public:
  using torch::optim::Adam::Adam;
  /// One update of all parameters that have a gradient; returns what `closure` returns. Throws ArgumentError for a
  /// sparse gradient.
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  void step_group(torch::optim::OptimizerParamGroup& group);
  torch::optim::AdamParamState& state_of(const at::Tensor& parameter, bool amsgrad);
};

}  // namespace mn
