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

/// The name of the optimizer's kind in checkpoints: "Adam" of torch::optim::Adam and FusedAdam alike. Other kinds than
/// libtorch's and mn's have the name of their type.
[[nodiscard]] std::string optimizer_kind(const torch::optim::Optimizer& optimizer);
/// The same of what a checkpoint holds, which may be the name of a type.
[[nodiscard]] std::string saved_kind(const std::string& saved);

/// A list with an object for each parameter group. Objects are empty for kinds of optimizers that are not libtorch's or
/// mn's own.
[[nodiscard]] nlohmann::json optimizer_settings(torch::optim::Optimizer& optimizer);

/// Sets those of one group to the values of one such object; names that it lacks are left alone.
void load_settings(torch::optim::OptimizerParamGroup& group, const nlohmann::json& values);

/// After a checkpoint's options were loaded: the settings that the program made its optimizer with (`now`) win where
/// they are not those that the checkpoint's program made its own with (`then`); what changed during training stays
/// loaded. Returns what won, such as "momentum 0.8 (was 0.9)".
[[nodiscard]] std::vector<std::string> apply_changed_settings(torch::optim::Optimizer& optimizer,
                                                              const nlohmann::json& then, const nlohmann::json& now);

}  // namespace mn
