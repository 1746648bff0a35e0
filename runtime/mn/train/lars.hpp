/// Layer-wise adaptive rate scaling: SGD for very large minibatches.
#pragma once

#include <vector>

#include <torch/optim/sgd.h>

namespace mn {

/// LARS (You, Gitman and Ginsburg 2017, arXiv:1708.03888). Each weight w with gradient g is updated at the rate
///   lr · trust · ‖w‖ / (‖g‖ + weight_decay · ‖w‖)
/// with momentum; biases and the parameters of normalisations (fewer than two dimensions) at the plain rate and without
/// weight decay. Options and state are those of torch::optim::SGD, but without dampening and Nesterov momentum.
class Lars : public torch::optim::SGD {
 public:
  /// Throws ArgumentError unless trust > 0 and the options are ones that LARS knows.
  Lars(std::vector<at::Tensor> parameters, const torch::optim::SGDOptions& options, double trust = 0.001);
  at::Tensor step(LossClosure closure = nullptr) override;

 private:
  void step_group(torch::optim::OptimizerParamGroup& group);
  at::Tensor momentum_of(const at::Tensor& parameter);

  double trust_;
};

}  // namespace mn
