/// SGD with momentum, Nesterov's too (Sutskever et al. 2013, "On the importance of initialization and momentum in deep
/// learning"), whose update is one pass over memory.
///
/// libtorch's fused kernel updates all parameters of one device and dtype in one call. It reads and writes each
/// parameter once, where torch::optim::SGD makes a pass for each term.
#pragma once

#include <vector>

#include <torch/optim/sgd.h>

namespace mn {

/// Replaces torch::optim::SGD: same options, same state, also in a checkpoint, and the same results to rounding.
class FusedSgd : public torch::optim::SGD {
 public:
  using torch::optim::SGD::SGD;
  /// One update of all parameters that have a gradient; returns what `closure` returns. Throws ArgumentError for a
  /// sparse gradient.
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  void step_group(torch::optim::OptimizerParamGroup& group);
};

}  // namespace mn
