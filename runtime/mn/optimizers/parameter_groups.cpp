#include <mn/optimizers/parameter_groups.hpp>

#include <algorithm>
#include <unordered_set>

#include <mn/core/error.hpp>
#include <mn/core/name_pattern.hpp>

namespace mn {
namespace {

/// Returns the index of the first rule that matches the name. Returns rules.size() if no rule matches.
std::size_t rule_of(const std::string& name, const std::vector<GroupRule>& rules) {
  const auto matches = [&](const GroupRule& rule) { return matches_name(rule.pattern, name); };
  return static_cast<std::size_t>(std::ranges::find_if(rules, matches) - rules.begin());
}

/// Adds the parameters to `plan`. They form one group, or two groups if some have weight decay and others have none.
void add_groups(std::vector<PlannedGroup>& plan, const std::vector<at::Tensor>& parameters,
                std::optional<std::size_t> rule, double weight_decay, Decay decay) {
  PlannedGroup decayed{{}, rule, weight_decay}, plain{{}, rule, 0};
  for (const at::Tensor& parameter : parameters) {
    const bool is_plain = decay == Decay::kWeights && weight_decay != 0 && parameter.dim() < 2;
    (is_plain ? plain : decayed).parameters.push_back(parameter);
  }
  if (!decayed.parameters.empty()) plan.push_back(std::move(decayed));
  if (!plain.parameters.empty()) plan.push_back(std::move(plain));
}

}  // namespace

std::vector<PlannedGroup> plan_groups(const NamedTensors& parameters, const std::vector<GroupRule>& rules,
                                      double weight_decay, Decay decay) {
  std::vector<std::vector<at::Tensor>> of_rule(rules.size() + 1);  // the last: of no rule
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& [name, parameter] : parameters) {
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) of_rule[rule_of(name, rules)].push_back(parameter);
  }
  std::vector<PlannedGroup> plan;
  add_groups(plan, of_rule.back(), std::nullopt, weight_decay, decay);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (of_rule[i].empty()) {
      throw ArgumentError("no parameter is left for the group \"" + rules[i].pattern +
                          "\": its pattern matches no name, or an earlier group has taken the parameters" +
                          (parameters.empty() ? "" : "; names are like \"" + parameters.front().first + "\""));
    }
    add_groups(plan, of_rule[i], i, rules[i].weight_decay.value_or(weight_decay), decay);
  }
  return plan;
}

}  // namespace mn
