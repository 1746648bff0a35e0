/// SGD with momentum or Nesterov momentum (Sutskever et al. 2013, "On the importance of initialization and momentum in
/// deep learning"), with an update that passes over memory only once.
///
/// libtorch's fused kernel updates all parameters of one device and dtype in one call. It reads and writes each
/// parameter once. torch::optim::SGD instead makes one pass for each term of the formula.
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
  /// Makes one update of all parameters that have a gradient. Returns the result of `closure`. Applies a sparse
  /// gradient as torch::optim::SGD does. Throws ArgumentError for a sparse gradient with weight decay, or if its
  /// parameter has a float32 master.
  at::Tensor step(LossClosure closure = nullptr) override;
  /// False if the options have dampening. SGD does not dampen the gradient of the first update; if steps may be left
  /// out on the device, the host does not know which update is the first.
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
