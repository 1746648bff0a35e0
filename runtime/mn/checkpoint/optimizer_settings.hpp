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

/// The name of the optimizer's kind in checkpoints: "Adam" for torch::optim::Adam and FusedAdam. Optimizers that are
/// neither libtorch's nor mn's have the name of their C++ type.
[[nodiscard]] std::string optimizer_kind(const torch::optim::Optimizer& optimizer);

/// Returns a list with one object for each parameter group. The object maps each setting's name to its number; it is
/// empty for optimizers that are neither libtorch's nor mn's.
[[nodiscard]] nlohmann::json optimizer_settings(torch::optim::Optimizer& optimizer);

/// Gives a parameter group the settings in `values`, which is one object of the list from optimizer_settings().
/// Settings that `values` lacks keep their numbers.
void load_settings(torch::optim::OptimizerParamGroup& group, const nlohmann::json& values);

/// Call it after a resume has loaded the checkpoint's settings. `then` has the settings that the old program gave its
/// optimizer, `now` the settings that the new program gave. Where the two differ, the new program's setting replaces
/// the loaded one. Other settings, also those that changed during the old training, stay as loaded. Returns a text for
/// each new setting: "momentum 0.8 (was 0.9)".
[[nodiscard]] std::vector<std::string> apply_changed_settings(torch::optim::Optimizer& optimizer,
                                                              const nlohmann::json& then, const nlohmann::json& now);

}  // namespace mn
