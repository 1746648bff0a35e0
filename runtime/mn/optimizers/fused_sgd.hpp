/// SGD with momentum, Nesterov's too (Sutskever et al. 2013, "On the importance of initialization and momentum in deep
/// learning"), whose update is one pass over memory.
///
/// libtorch's fused kernel updates all parameters of one device and dtype in one call. It reads and writes each
/// parameter once, where torch::optim::SGD makes a pass for each term.
#pragma once

#include <vector>

#include <torch/optim/sgd.h>

#include <mn/optimizers/capturable.hpp>
#include <mn/optimizers/skips_overflows.hpp>

namespace mn {

/// Replaces torch::optim::SGD: same options, same state, also in a checkpoint, and the same results to rounding.
class FusedSgd : public torch::optim::SGD, public SkipsOverflows, public Capturable {
 public:
  using torch::optim::SGD::SGD;
  /// One update of all parameters that have a gradient; returns what `closure` returns. A sparse gradient is applied
  /// as torch::optim::SGD does; with weight decay ArgumentError.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Not with dampening: it leaves out the first step that is made, of which the host does not know which it is.
  [[nodiscard]] bool can_skip() const override;
  /// See Capturable.
  [[nodiscard]] std::vector<double> constants() const override;

 private:
  [[nodiscard]] at::Tensor& momentum_of(const at::Tensor& parameter);
  void step_sparse(const at::Tensor& parameter, const torch::optim::SGDOptions& options, const Rate& rate,
                   const at::Tensor& found);
  void step_group(torch::optim::OptimizerParamGroup& group, const Rate& rate, const at::Tensor& found);
};

}  // namespace mn
