/// The state of a torch optimizer by the names of its parameters.
///
/// Checkpoints know momenta and step counts as "PARAMETER/exp_avg", "PARAMETER/step" and the like, and each group by
/// the names of its parameters and its settings. So a model whose parameters are registered or grouped in another order
/// resumes with each parameter's own state. LBFGS and optimizers that are not libtorch's or mn's own have no such form:
/// libtorch's archive of them is one tensor of bytes, "archive", which knows parameters by their order: it loads where
/// the same names come in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <nlohmann/json.hpp>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/tensor/modules.hpp>

namespace torch::optim {
class Optimizer;
}

namespace mn {

/// The tensor that is libtorch's archive.
inline constexpr const char* kArchive = "archive";

/// The names of an optimizer's parameters, in the order of its groups: those of the module, and "#0", "#1", … of
/// parameters that it does not have.
[[nodiscard]] std::vector<std::vector<std::string>> parameter_names(torch::optim::Optimizer& optimizer,
                                                                    const torch::nn::Module& module);

/// What a checkpoint stores; shares the state's memory.
[[nodiscard]] NamedTensors optimizer_tensors(torch::optim::Optimizer& optimizer, const torch::nn::Module& module);
/// The groups: a list of {"parameters": names, "settings": values}.
[[nodiscard]] nlohmann::json optimizer_groups(torch::optim::Optimizer& optimizer, const torch::nn::Module& module);

/// Bytes that the state will take once every parameter has been updated, as far as the kind of the optimizer says: 0
/// for other kinds than libtorch's and mn's.
[[nodiscard]] std::uint64_t optimizer_state_bytes(torch::optim::Optimizer& optimizer);

/// Loads in three steps: the constructor makes room for the tensors of these forms, the caller fills tensors(), and
/// finish() takes them as the optimizer's state, in place of what it had.
class OptimizerLoad {
 public:
  /// `saved` as optimizer_tensors() named them. Throws DataError if they are not of this optimizer's parameters, or an
  /// archive has these in another order.
  OptimizerLoad(torch::optim::Optimizer& optimizer, const torch::nn::Module& module, const TensorForms& saved,
                const nlohmann::json& groups);
  [[nodiscard]] const NamedTensors& tensors() const noexcept { return tensors_; }
  /// `device`: of an archive's tensors.
  void finish(c10::Device device);

 private:
  void check_names(const nlohmann::json& groups) const;
  void check_order(const nlohmann::json& groups) const;

  torch::optim::Optimizer& optimizer_;
  std::vector<std::vector<std::string>> names_;
  nlohmann::json groups_;
  NamedTensors tensors_;
};

}  // namespace mn
