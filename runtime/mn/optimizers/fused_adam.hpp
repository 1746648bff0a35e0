/// Adam (Kingma & Ba 2015, arXiv:1412.6980) and AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101), with an update that
/// passes over memory only once.
///
/// libtorch's fused kernels update all parameters of one device and dtype in one call. They read and write each
/// parameter once. torch::optim::Adam instead makes one pass for each term of the formula.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <mn/optimizers/device_update.hpp>
#include <mn/optimizers/master_weights.hpp>

namespace mn {

/// Replaces torch::optim::Adam or AdamW. It has the same options, the same state (also in a checkpoint), and the same
/// results up to rounding. FusedAdam and FusedAdamW are its two instances.
template <class TorchAdam, class TorchOptions, class TorchState>
class FusedAdamOf : public TorchAdam, public DeviceUpdate, public MasterWeights {
 public:
  using TorchAdam::TorchAdam;
  /// Makes one update of all parameters that have a gradient. Returns the result of `closure`. Throws ArgumentError for
  /// a sparse gradient.
  at::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) override;
  /// Corrects the counts of steps (DeviceUpdate::settle).
  void settle() override;
  /// See DeviceUpdate.
  [[nodiscard]] std::vector<double> constants() const override;
  /// See DeviceUpdate.
  void keep_captured() override;
  /// See DeviceUpdate.
  void count_replay() override;

 private:
  /// The number of updates of one parameter: a count on its device, and a count on the host.
  struct Count {
    at::Tensor on_device;
    std::int64_t on_host = 0;
    std::uint64_t last_step = 0;  // value of steps_ at the last update
    bool is_in_graph = false;
  };
  void step_group(torch::optim::OptimizerParamGroup& group, const Rate& rate, const at::Tensor& has_overflow);
  [[nodiscard]] at::Tensor count_before(const at::Tensor& parameter, std::int64_t count);

  std::unordered_map<c10::TensorImpl*, Count> counts_;  // empty if only the host counts
  std::uint64_t steps_ = 0;
};

/// Replaces torch::optim::Adam; its update is one pass over memory.
using FusedAdam = FusedAdamOf<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>;
/// Replaces torch::optim::AdamW; its update is one pass over memory.
using FusedAdamW = FusedAdamOf<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>;

extern template class FusedAdamOf<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>;
extern template class FusedAdamOf<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>;

}  // namespace mn
