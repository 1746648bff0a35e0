/// LAMB, an Adam for very large minibatches with a separate rate for each layer (layer-wise adaptive moments; You et
/// al. 2020, arXiv:1904.00962).
///
/// A weight w has Adam's step r = m̂ / (√v̂ + eps), with both moments corrected for their start. LAMB subtracts from w
///   lr · ‖w‖ / ‖r + weight_decay · w‖ · (r + weight_decay · w)
/// (1) Biases and the parameters of normalizations (fewer than two dimensions) take the plain rate and no weight decay.
/// (2) If a weight or its step is all zeros, the weight takes the plain rate.
/// Cost: two norms of each weight, in addition to Adam's passes. Norms stay on the device, so the host does not wait.
#pragma once

#include <vector>

#include <torch/optim/adamw.h>

namespace mn {

/// Has the options and the state of torch::optim::AdamW, but rejects AMSGrad.
class Lamb : public torch::optim::AdamW {
 public:
  /// Throws ArgumentError if `options` ask for AMSGrad.
  Lamb(std::vector<at::Tensor> parameters, const torch::optim::AdamWOptions& options);
  /// Makes the optimizer for groups of parameters; a group's own options replace `options`. Throws ArgumentError as the
  /// constructor above does.
  Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, const torch::optim::AdamWOptions& options);
  /// Updates all parameters that have a gradient once. Returns what `closure` returns.
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  void step_group(torch::optim::OptimizerParamGroup& group);
};

}  // namespace mn
