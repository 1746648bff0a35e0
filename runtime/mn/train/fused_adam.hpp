/// Adam whose update is one pass over memory.
#pragma once

#include <vector>

#include <torch/optim/adam.h>

namespace mn {

/// Adam (Kingma & Ba 2015, arXiv:1412.6980), with the options, state and results (to rounding) of torch::optim::Adam:
/// it can take its place, also in a checkpoint. The update runs libtorch's fused kernel, which reads and writes each
/// parameter once instead of once for each term.
class FusedAdam : public torch::optim::Adam {
 public:
  using torch::optim::Adam::Adam;
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  void step_group(torch::optim::OptimizerParamGroup& group);
  torch::optim::AdamParamState& state_of(const at::Tensor& parameter, bool amsgrad);
};

}  // namespace mn
