#include <mn/checkpoint/optimizer_settings.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <typeinfo>
#include <utility>

#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/optimizers/lamb.hpp>
#include <mn/optimizers/lars.hpp>

namespace mn {
namespace {

using torch::optim::OptimizerOptions;

/// One number in an optimizer's options, such as the momentum. A flag counts as 0 or 1.
struct Setting {
  std::string name;
  std::function<double(OptimizerOptions&)> get;
  std::function<void(OptimizerOptions&, double)> set;
};
using Settings = std::vector<Setting>;

/// Makes the Setting of one member of an optimizer's Options. `access` returns a reference to the member.
template <class Options, class Access>
Setting setting(std::string name, Access access) {
  const auto member = [access](OptimizerOptions & options) -> auto& { return access(static_cast<Options&>(options)); };
  return {std::move(name), [member](OptimizerOptions& options) { return static_cast<double>(member(options)); },
          [member](OptimizerOptions& options, double value) {
            auto& target = member(options);
            target = static_cast<std::remove_reference_t<decltype(target)>>(value);
          }};
}

/// Returns the settings of an optimizer whose options have the type Options.
template <class Options>
Settings settings_in() {
  Settings all;
  const auto add = [&](const char* name, auto access) {
    if constexpr (requires(Options & options) { access(options); }) all.push_back(setting<Options>(name, access));
  };
  add("lr", [](auto& o) -> decltype(o.lr()) { return o.lr(); });
  add("weight decay", [](auto& o) -> decltype(o.weight_decay()) { return o.weight_decay(); });
  add("momentum", [](auto& o) -> decltype(o.momentum()) { return o.momentum(); });
  add("dampening", [](auto& o) -> decltype(o.dampening()) { return o.dampening(); });
  add("nesterov", [](auto& o) -> decltype(o.nesterov()) { return o.nesterov(); });
  add("beta1", [](auto& o) -> decltype(std::get<0>(o.betas())) { return std::get<0>(o.betas()); });
  add("beta2", [](auto& o) -> decltype(std::get<1>(o.betas())) { return std::get<1>(o.betas()); });
  add("alpha", [](auto& o) -> decltype(o.alpha()) { return o.alpha(); });
  add("lr decay", [](auto& o) -> decltype(o.lr_decay()) { return o.lr_decay(); });
  add("eps", [](auto& o) -> decltype(o.eps()) { return o.eps(); });
  add("amsgrad", [](auto& o) -> decltype(o.amsgrad()) { return o.amsgrad(); });
  add("centered", [](auto& o) -> decltype(o.centered()) { return o.centered(); });
  return all;
}

template <class Options>
bool is_a(const OptimizerOptions& options) {
  return dynamic_cast<const Options*>(&options) != nullptr;
}

Settings settings_of(const OptimizerOptions& options) {
  if (is_a<torch::optim::SGDOptions>(options)) return settings_in<torch::optim::SGDOptions>();
  if (is_a<torch::optim::AdamOptions>(options)) return settings_in<torch::optim::AdamOptions>();
  if (is_a<torch::optim::AdamWOptions>(options)) return settings_in<torch::optim::AdamWOptions>();
  if (is_a<torch::optim::RMSpropOptions>(options)) return settings_in<torch::optim::RMSpropOptions>();
  if (is_a<torch::optim::AdagradOptions>(options)) return settings_in<torch::optim::AdagradOptions>();
  return {};
}

/// The name in checkpoints of a type of optimizer. Optimizers with equal names can read each other's state.
struct Kind {
  const std::type_info* id;
  std::string_view name;
};

const std::array<Kind, 11>& kinds() {
  static const std::array<Kind, 11> all = {{{&typeid(torch::optim::Adam), "Adam"},
                                            {&typeid(FusedAdam), "Adam"},
                                            {&typeid(torch::optim::AdamW), "AdamW"},
                                            {&typeid(FusedAdamW), "AdamW"},
                                            {&typeid(torch::optim::SGD), "SGD"},
                                            {&typeid(FusedSgd), "SGD"},
                                            {&typeid(torch::optim::RMSprop), "RMSprop"},
                                            {&typeid(torch::optim::Adagrad), "Adagrad"},
                                            {&typeid(torch::optim::LBFGS), "LBFGS"},
                                            {&typeid(Lars), "LARS"},
                                            {&typeid(Lamb), "LAMB"}}};
  return all;
}

using Names = std::vector<std::string>;

/// The groups of the checkpoint that share parameters with a group of parameters `names`: index of the group → the
/// first shared parameter, with an ellipsis if there are more.
std::map<std::size_t, std::string> shared_parameters(const Names& names, const nlohmann::json& saved) {
  std::map<std::size_t, std::string> shared;
  const std::set<std::string> own(names.begin(), names.end());
  for (std::size_t s = 0; s < saved.size(); ++s) {
    for (const auto& name : saved[s].at("parameters").get<Names>()) {
      if (!own.contains(name)) continue;
      if (const bool is_first = shared.emplace(s, name).second; is_first) continue;
      shared[s] += ", …";
      break;
    }
  }
  return shared;
}

}  // namespace

std::string optimizer_kind(const torch::optim::Optimizer& optimizer) {
  const auto known = std::ranges::find_if(kinds(), [&](const Kind& kind) { return *kind.id == typeid(optimizer); });
  return known == kinds().end() ? c10::demangle(typeid(optimizer).name()) : std::string(known->name);
}

nlohmann::json optimizer_settings(torch::optim::Optimizer& optimizer) {
  nlohmann::json groups = nlohmann::json::array();
  for (auto& group : optimizer.param_groups()) {
    nlohmann::json values = nlohmann::json::object();
    for (const Setting& each : settings_of(group.options())) values[each.name] = each.get(group.options());
    groups.push_back(std::move(values));
  }
  return groups;
}

void load_settings(torch::optim::OptimizerParamGroup& group, const nlohmann::json& values) {
  for (const Setting& each : settings_of(group.options())) {
    if (values.contains(each.name)) each.set(group.options(), values.at(each.name).get<double>());
  }
}

std::vector<std::string> apply_changed_settings(torch::optim::Optimizer& optimizer,
                                                const std::vector<std::vector<std::string>>& names,
                                                const nlohmann::json& saved, const nlohmann::json& then,
                                                const nlohmann::json& now) {
  std::map<std::string, Names> changes;  // text of a change → parameters, one of each pair of groups
  std::size_t pairs = 0;
  auto& groups = optimizer.param_groups();
  for (std::size_t g = 0; g < std::min(groups.size(), now.size()); ++g) {
    for (const auto& [s, shared] : shared_parameters(names[g], saved)) {
      if (s >= then.size()) continue;
      ++pairs;
      for (const Setting& each : settings_of(groups[g].options())) {
        if (!then[s].contains(each.name) || !now[g].contains(each.name) || then[s][each.name] == now[g][each.name])
          continue;
        each.set(groups[g].options(), now[g][each.name].get<double>());
        changes[each.name + " " + now[g][each.name].dump() + " (was " + then[s][each.name].dump() + ")"].push_back(
            shared);
      }
    }
  }
  std::vector<std::string> texts;
  for (const auto& [change, parameters] : changes) {
    texts.push_back(parameters.size() == pairs ? change : change + " for " + join(parameters));
  }
  return texts;
}

}  // namespace mn
