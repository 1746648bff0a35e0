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

/// Returns the name by which checkpoints call the optimizer's kind, for instance "Adam" for torch::optim::Adam and
/// FusedAdam. If the optimizer is neither libtorch's nor mn's, returns the name of its C++ type.
[[nodiscard]] std::string optimizer_kind(const torch::optim::Optimizer& optimizer);

/// Returns one object for each parameter group, which maps names of settings to numbers. The objects are empty for
/// optimizers of other libraries.
[[nodiscard]] nlohmann::json optimizer_settings(torch::optim::Optimizer& optimizer);

/// Sets those settings of a parameter group that `values` has. `values` is one object of the list from
/// optimizer_settings().
void load_settings(torch::optim::OptimizerParamGroup& group, const nlohmann::json& values);

/// Call it after a resume has loaded the checkpoint's settings. `then` has the settings that the old program gave its
/// optimizer, `now` the settings that the new program gave, both by group. `names` are the names of the parameters in
/// each group, and `saved` the checkpoint's optimizer_groups(): the groups may have changed, so groups are compared
/// that share parameters. Where the settings differ, the new program's setting replaces the loaded one. Other settings,
/// also those that changed during the old training, stay as loaded. Returns a text for each new setting: "momentum 0.8
/// (was 0.9)", or "momentum 0.8 (was 0.9) for fc.weight, …" if the setting is new for some groups only.
[[nodiscard]] std::vector<std::string> apply_changed_settings(torch::optim::Optimizer& optimizer,
                                                              const std::vector<std::vector<std::string>>& names,
                                                              const nlohmann::json& saved, const nlohmann::json& then,
                                                              const nlohmann::json& now);

}  // namespace mn
