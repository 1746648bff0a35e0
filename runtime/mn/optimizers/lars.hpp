/// LARS, an SGD for very large minibatches with a separate rate for each layer (layer-wise adaptive rate scaling; You,
/// Gitman and Ginsburg 2017, arXiv:1708.03888).
///
/// Each weight w with gradient g is updated with momentum, at the rate
///   lr · trust · ‖w‖ / (‖g‖ + weight_decay · ‖w‖)
/// (1) Parameters of fewer than two dimensions (biases, parameters of normalizations) take the plain rate and no weight
///     decay.
/// (2) If a weight or its gradient is all zeros, the weight takes the plain rate.
/// (3) The momentum adds up gradients multiplied by their rates; therefore a new rate does not affect earlier
///     gradients.
/// Cost: two norms of each weight, in addition to SGD's passes. Norms stay on the device; the host does not wait.
#pragma once

#include <vector>

#include <torch/optim/sgd.h>

namespace mn {

/// Has the options and the state of torch::optim::SGD, but rejects dampening and Nesterov momentum.
class Lars : public torch::optim::SGD {
 public:
  /// Throws ArgumentError if trust ≤ 0, or if the options have dampening or Nesterov momentum.
  Lars(std::vector<at::Tensor> parameters, const torch::optim::SGDOptions& options, double trust = 0.001);
  /// Makes the optimizer for groups of parameters. The options of a group replace `options`. Throws ArgumentError as
  /// the constructor above does.
  Lars(std::vector<torch::optim::OptimizerParamGroup> groups, const torch::optim::SGDOptions& options,
       double trust = 0.001);
  /// Makes one update of all parameters that have a gradient. Returns the result of `closure`.
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  void step_group(torch::optim::OptimizerParamGroup& group);
  at::Tensor momentum_of(const at::Tensor& parameter);

  double trust_;
};

}  // namespace mn
