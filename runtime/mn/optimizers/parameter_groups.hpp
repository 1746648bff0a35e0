/// Groups of parameters by the patterns of their names, for any torch optimizer.
///
///   const auto settings = torch::optim::AdamWOptions(0.001).weight_decay(0.1);
///   auto [groups, names] = mn::parameter_groups(*model, settings, {{.pattern = "trunk", .rate = 0.1}});
///   auto optimizer = mn::create_multi_node_optimizer(
///       mn::make_optimizer<mn::FusedAdamW>(std::move(groups), settings), comm);
///   optimizer->name_groups(names);  // for the log: "lr" and "lr/trunk"
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <mn/tensor/modules.hpp>

namespace mn {

/// Settings for the parameters whose names match a pattern.
struct GroupRule {
  std::string pattern;                      ///< see matches_name(); the first rule that matches a name counts
  double rate = 1;                          ///< factor of the optimizer's learning rate
  std::optional<double> weight_decay = {};  ///< no value: the optimizer's
};

/// Which parameters have weight decay.
enum class Decay {
  kAll,      ///< all parameters, as in torch's optimizers
  kWeights,  ///< neither biases nor the parameters of normalizations (fewer than two dimensions)
};

/// Groups of parameters, and their names, for the constructor of an optimizer.
struct ParameterGroups {
  std::vector<torch::optim::OptimizerParamGroup> groups;  ///< none is empty
  std::vector<std::string> names;  ///< pattern of each group; empty for parameters without a rule
};

/// A group of parameters that parameter_groups() will make.
struct PlannedGroup {
  std::vector<at::Tensor> parameters;  ///< not empty
  std::optional<std::size_t> rule;     ///< index of the rule; no value: no rule matches
  double weight_decay = 0;             ///< of these parameters
};

/// Makes the groups that parameter_groups() would make, for an optimizer with the weight decay `weight_decay`.
[[nodiscard]] std::vector<PlannedGroup> plan_groups(const NamedTensors& parameters, const std::vector<GroupRule>& rules,
                                                    double weight_decay, Decay decay);

/// Divides the model's parameters into groups by the rules. First come the parameters that no rule matches, then the
/// parameters of each rule. Within a rule, the parameters without weight decay form their own group. A parameter that
/// several modules share is listed once. Local. Throws ArgumentError if a rule gets no parameter.
template <class Options>
[[nodiscard]] ParameterGroups parameter_groups(const torch::nn::Module& model, const Options& options,
                                               const std::vector<GroupRule>& rules = {},
                                               Decay decay = Decay::kWeights) {
  ParameterGroups made;
  for (PlannedGroup& planned : plan_groups(named_parameters(model), rules, options.weight_decay(), decay)) {
    auto own = std::make_unique<Options>(options);
    own->weight_decay(planned.weight_decay);
    if (planned.rule) own->lr(options.lr() * rules[*planned.rule].rate);
    made.groups.emplace_back(std::move(planned.parameters), std::move(own));
    made.names.push_back(planned.rule ? rules[*planned.rule].pattern : "");
  }
  return made;
}

/// Makes an optimizer whose groups keep their settings. Versions of libtorch after 2.11 replace a setting that equals
/// the default of its class, such as a weight decay of 0, by that of `settings`.
template <class Optimizer, class Options>
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(std::vector<torch::optim::OptimizerParamGroup> groups,
                                                        const Options& settings) {
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> own;
  for (const auto& group : groups) own.push_back(group.options().clone());
  auto optimizer = std::make_unique<Optimizer>(std::move(groups), settings);
  for (std::size_t i = 0; i < own.size(); ++i) optimizer->param_groups()[i].set_options(std::move(own[i]));
  return optimizer;
}

}  // namespace mn
