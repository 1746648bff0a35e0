/// LAMB, an Adam for very large minibatches with a separate rate for each layer (layer-wise adaptive moments; You et
/// al. 2020, arXiv:1904.00962).
///
/// Adam would subtract from a weight w the step r = m̂ / (√v̂ + eps), with both moments corrected for the first steps.
/// LAMB subtracts from w instead
///   lr · ‖w‖ / ‖r + weight_decay · w‖ · (r + weight_decay · w)
/// (1) Parameters of fewer than two dimensions (biases, parameters of normalizations) take the plain rate and no weight
///     decay.
/// (2) If a weight or its step is all zeros, the weight takes the plain rate.
/// Cost: two norms of each weight, in addition to Adam's passes. Norms stay on the device; the host does not wait.
#pragma once

#include <vector>

#include <torch/optim/adamw.h>

namespace mn {

/// Has the options and the state of torch::optim::AdamW, but rejects AMSGrad.
class Lamb : public torch::optim::AdamW {
 public:
  /// Throws ArgumentError if `options` ask for AMSGrad.
  Lamb(std::vector<at::Tensor> parameters, const torch::optim::AdamWOptions& options);
  /// Makes the optimizer for groups of parameters. The options of a group replace `options`. Throws ArgumentError if
  /// `options` ask for AMSGrad.
  Lamb(std::vector<torch::optim::OptimizerParamGroup> groups, const torch::optim::AdamWOptions& options);
  /// Makes one update of all parameters that have a gradient. Returns the result of `closure`.
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  void step_group(torch::optim::OptimizerParamGroup& group);
};

}  // namespace mn
