/// The kind and the settings of a torch optimizer (learning rate, momentum, weight decay, …) by their names.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace torch::optim {
class Optimizer;
class OptimizerParamGroup;
}  // namespace torch::optim

namespace mn {

/// The name of the optimizer's kind in checkpoints, for instance "Adam" for torch::optim::Adam and FusedAdam. For an
/// optimizer that is neither libtorch's nor mn's, the name of its C++ type.
[[nodiscard]] std::string optimizer_kind(const torch::optim::Optimizer& optimizer);

/// Returns a list of objects, one for each parameter group: setting's name → number. The objects are empty for
/// optimizers that are neither libtorch's nor mn's.
[[nodiscard]] nlohmann::json optimizer_settings(torch::optim::Optimizer& optimizer);

/// Sets the settings of a parameter group to `values`, one object of the list from optimizer_settings(). Settings that
/// `values` lacks keep their numbers.
void load_settings(torch::optim::OptimizerParamGroup& group, const nlohmann::json& values);

/// Call it after a resume has loaded the checkpoint's settings. The old program made its optimizer with the settings
/// `then`, the new program with the settings `now`. If the two differ in a setting, the number in `now` replaces the
/// loaded one. All further settings stay as loaded, even if they changed during the old training. Returns a text for
/// each replaced setting, for instance "momentum 0.8 (was 0.9)".
[[nodiscard]] std::vector<std::string> apply_changed_settings(torch::optim::Optimizer& optimizer,
                                                              const nlohmann::json& then, const nlohmann::json& now);

}  // namespace mn
