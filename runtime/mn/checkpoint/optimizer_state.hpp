/// Stores the state of a torch optimizer in checkpoints, by the names of its parameters.
///
/// A checkpoint names momenta and step counts "PARAMETER/exp_avg", "PARAMETER/step", …, and float32 masters
/// (master_weights.hpp) "PARAMETER/master". A checkpoint also holds the parameter names and settings of each group. So
/// a model may register or group its parameters in a new order, and each parameter resumes with its state. The state of
/// LBFGS, and of optimizers that are neither libtorch's nor mn's, is a tensor of bytes named "archive": libtorch's
/// archive, in which the order identifies parameters. An archive loads only if the new optimizer has parameters of the
/// same names in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <nlohmann/json.hpp>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/tensor/modules.hpp>

namespace torch::optim {
class Optimizer;
}

namespace mn {

/// The name of the tensor whose bytes are libtorch's archive of the state.
inline constexpr const char* kArchive = "archive";

/// The names of an optimizer's parameters, by group. Parameters that are not in the module are called "#0", "#1", …
[[nodiscard]] std::vector<std::vector<std::string>> parameter_names(torch::optim::Optimizer& optimizer,
                                                                    const torch::nn::Module& module);

/// Returns the tensors of the optimizer's state for a checkpoint. Most of them share the memory of the state.
[[nodiscard]] NamedTensors optimizer_tensors(torch::optim::Optimizer& optimizer, const torch::nn::Module& module);
/// The optimizer's groups for a checkpoint: a list of {"parameters": names, "settings": values}.
[[nodiscard]] nlohmann::json optimizer_groups(torch::optim::Optimizer& optimizer, const torch::nn::Module& module);

/// Returns how many bytes the state will have once all parameters were updated. Returns 0 for optimizers of other
/// libraries.
[[nodiscard]] std::uint64_t optimizer_state_bytes(torch::optim::Optimizer& optimizer);

/// Loads an optimizer's state in three steps: the constructor allocates tensors, the caller fills them, and finish()
/// makes them the optimizer's state.
class OptimizerLoad {
 public:
  /// `saved` has the dtypes and shapes of the optimizer's tensors in the checkpoint. Throws DataError if the names of
  /// the parameters do not match the checkpoint. For an archive also throws if the order of the parameters does not
  /// match.
  OptimizerLoad(torch::optim::Optimizer& optimizer, const torch::nn::Module& module, const TensorForms& saved,
                const nlohmann::json& groups);
  [[nodiscard]] const NamedTensors& tensors() const noexcept { return tensors_; }
  /// The pieces of the state of sharded parameters, which the caller fills, too.
  [[nodiscard]] const std::vector<TensorPiece>& pieces() const noexcept { return pieces_; }
  /// Replaces the optimizer's state by the filled tensors. Tensors from an archive go to `device`.
  void finish(c10::Device device);

 private:
  void add(const TensorForms::value_type& saved, const at::Tensor& parameter);
  void check_names(const nlohmann::json& groups) const;
  void check_order(const nlohmann::json& groups) const;

  torch::optim::Optimizer& optimizer_;
  std::vector<std::vector<std::string>> names_;
  nlohmann::json groups_;
  NamedTensors tensors_;
  std::vector<TensorPiece> pieces_;
};

}  // namespace mn
