/// SGD with momentum or Nesterov momentum (Sutskever et al. 2013, "On the importance of initialization and momentum in
/// deep learning"), whose update is one pass over memory.
///
/// libtorch's fused kernel updates all parameters of one device and dtype in one call. It reads and writes each
/// parameter once; torch::optim::SGD makes a pass for each term.
#pragma once

#include <vector>

#include <torch/optim/sgd.h>

#include <mn/optimizers/device_update.hpp>
#include <mn/optimizers/master_weights.hpp>

namespace mn {

/// Replaces torch::optim::SGD. It has SGD's options and state (also in a checkpoint), and equal results up to rounding.
class FusedSgd : public torch::optim::SGD, public DeviceUpdate, public MasterWeights {
 public:
  using torch::optim::SGD::SGD;
  /// Updates all parameters that have a gradient once. Returns what `closure` returns. Applies a sparse gradient as
  /// torch::optim::SGD does, but throws ArgumentError for a sparse gradient with weight decay or with a master.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// Returns false if there is dampening: SGD does not dampen the gradient of the first update, but if steps may be
  /// left out, the host does not know which update is the first.
  [[nodiscard]] bool can_skip() const override;
  /// See DeviceUpdate.
  [[nodiscard]] std::vector<double> constants() const override;

 private:
  [[nodiscard]] at::Tensor& momentum_of(const at::Tensor& parameter);
  void step_sparse(const at::Tensor& parameter, const torch::optim::SGDOptions& options, const Rate& rate,
                   const at::Tensor& has_overflow);
  void step_group(torch::optim::OptimizerParamGroup& group, const Rate& rate, const at::Tensor& has_overflow);
};

}  // namespace mn
