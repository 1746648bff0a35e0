/// Float32 copies (masters) of 16-bit parameters (Micikevicius et al. 2018, arXiv:1710.03740, section 3.1).
///
/// Most updates are smaller than the rounding of a 16-bit weight, and would be lost. Therefore an optimizer may keep
/// each 16-bit parameter in float32, too, as its master:
/// (1) An update reads the 16-bit gradient and changes the master, with moments in float32.
/// (2) After an update, the parameter is its master, rounded to nearest.
/// (3) Masters are equal on all ranks, because they begin as the parameters' values, and all ranks apply the same mean
///     gradients.
/// Gradients have 16 bits; therefore ranks exchange half as many bytes as with float32. Forward and backward need no
/// 16-bit copies of weights.
#pragma once

#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace mn {

/// Base class of optimizers that can keep masters: FusedAdam, FusedAdamW and FusedSgd.
class MasterWeights {
 public:
  virtual ~MasterWeights() = default;
  /// From now on the optimizer keeps masters of all 16-bit parameters. Call it before the first update. A master begins
  /// with the value that the parameter has before its first update. From then on only the optimizer and a resume may
  /// change the parameter, because an update overwrites every other change. Checkpoints hold the masters.
  void keep_masters() noexcept { keeps_masters_ = true; }
  /// True after keep_masters().
  [[nodiscard]] bool keeps_masters() const noexcept { return keeps_masters_; }
  /// True if the optimizer keeps a master of this parameter, or will make one at the first update.
  [[nodiscard]] bool has_master(const at::Tensor& parameter) const {
    return keeps_masters_ && parameter.is_floating_point() && parameter.element_size() == 2;
  }
  /// Returns the parameter's master. The result is undefined before the parameter's first update, and if it has no
  /// master.
  [[nodiscard]] at::Tensor master(const at::Tensor& parameter) const;
  /// For a resume: sets the parameter's master. If `master` is undefined, the parameter's value becomes its master.
  /// Does nothing if the optimizer keeps no master of this parameter.
  void load_master(const at::Tensor& parameter, const at::Tensor& master);

 protected:
  /// Returns the tensor that an update of this parameter must change: its master, which is made if necessary, or the
  /// parameter itself if it has no master.
  [[nodiscard]] at::Tensor to_update(const at::Tensor& parameter);
  /// Replaces each gradient that has fewer bits than its tensor in `to_update` by a float32 copy.
  static void widen_gradients(std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& to_update);
  /// Call it after the update. Sets each parameter to its rounded master (2), for all masters that to_update() has
  /// returned since the last call.
  void round_masters();

 private:
  std::unordered_map<c10::TensorImpl*, at::Tensor> masters_;
  std::vector<at::Tensor> narrow_, updated_;  // parameters that round_masters() will write, and their masters
  bool keeps_masters_ = false;
};

/// Local. Returns the parameter's master if the optimizer has one, otherwise the parameter.
[[nodiscard]] at::Tensor exact_weight(torch::optim::Optimizer& optimizer, const at::Tensor& parameter);

/// Collective if the module is in pieces (construct_sharded()). Converts the weights of a module (its floating-point
/// parameters of two or more dimensions) to `type`, in place. Biases and the parameters of normalizations stay as they
/// are, because they are few and need the precision. Forward then needs an AutocastScope of the same type. Call it
/// before a multi-node optimizer is made.
void narrow_weights(const torch::nn::Module& module, at::ScalarType type);

}  // namespace mn
