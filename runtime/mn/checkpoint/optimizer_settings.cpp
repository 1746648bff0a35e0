#include <mn/checkpoint/optimizer_settings.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <typeindex>
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

/// Returns true if `options` are of type Options. Then also calls visit(name, number or flag) for each known setting.
template <class Options, class Visit>
bool visit_as(OptimizerOptions& options, const Visit& visit) {
  auto* const own = dynamic_cast<Options*>(&options);
  if (own == nullptr) return false;
  if constexpr (requires { own->lr(); }) visit("lr", own->lr());
  if constexpr (requires { own->weight_decay(); }) visit("weight decay", own->weight_decay());
  if constexpr (requires { own->momentum(); }) visit("momentum", own->momentum());
  if constexpr (requires { own->dampening(); }) visit("dampening", own->dampening());
  if constexpr (requires { own->nesterov(); }) visit("nesterov", own->nesterov());
  if constexpr (requires { own->betas(); }) visit("beta1", std::get<0>(own->betas()));
  if constexpr (requires { own->betas(); }) visit("beta2", std::get<1>(own->betas()));
  if constexpr (requires { own->alpha(); }) visit("alpha", own->alpha());
  if constexpr (requires { own->lr_decay(); }) visit("lr decay", own->lr_decay());
  if constexpr (requires { own->eps(); }) visit("eps", own->eps());
  if constexpr (requires { own->amsgrad(); }) visit("amsgrad", own->amsgrad());
  if constexpr (requires { own->centered(); }) visit("centered", own->centered());
  return true;
}

template <class Visit>
void visit_settings(OptimizerOptions& options, const Visit& visit) {
  static_cast<void>(
      visit_as<torch::optim::SGDOptions>(options, visit) || visit_as<torch::optim::AdamOptions>(options, visit) ||
      visit_as<torch::optim::AdamWOptions>(options, visit) || visit_as<torch::optim::RMSpropOptions>(options, visit) ||
      visit_as<torch::optim::AdagradOptions>(options, visit));
}

template <class Member>
void set(Member& member, const nlohmann::json& value) {
  member = static_cast<Member>(value.get<double>());  // a flag counts as 0 or 1
}

using Names = std::vector<std::string>;

/// Finds the groups of the checkpoint that share parameters with `names`. Returns for the index of each of them the
/// first shared name, followed by ", …" if more names are shared.
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
  // Maps each type of optimizer to its kind. Optimizers of one kind can read each other's state.
  static const std::map<std::type_index, const char*> kinds = {{typeid(torch::optim::Adam), "Adam"},
                                                               {typeid(FusedAdam), "Adam"},
                                                               {typeid(torch::optim::AdamW), "AdamW"},
                                                               {typeid(FusedAdamW), "AdamW"},
                                                               {typeid(torch::optim::SGD), "SGD"},
                                                               {typeid(FusedSgd), "SGD"},
                                                               {typeid(torch::optim::RMSprop), "RMSprop"},
                                                               {typeid(torch::optim::Adagrad), "Adagrad"},
                                                               {typeid(torch::optim::LBFGS), "LBFGS"},
                                                               {typeid(Lars), "LARS"},
                                                               {typeid(Lamb), "LAMB"}};
  const auto known = kinds.find(typeid(optimizer));
  return known == kinds.end() ? c10::demangle(typeid(optimizer).name()) : known->second;
}

nlohmann::json optimizer_settings(torch::optim::Optimizer& optimizer) {
  nlohmann::json groups = nlohmann::json::array();
  for (auto& group : optimizer.param_groups()) {
    nlohmann::json values = nlohmann::json::object();
    visit_settings(group.options(),
                   [&](const char* name, auto& member) { values[name] = static_cast<double>(member); });
    groups.push_back(std::move(values));
  }
  return groups;
}

void load_settings(torch::optim::OptimizerParamGroup& group, const nlohmann::json& values) {
  visit_settings(group.options(), [&](const char* name, auto& member) {
    if (values.contains(name)) set(member, values.at(name));
  });
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
      visit_settings(groups[g].options(), [&, s = s, &shared = shared](const std::string& name, auto& member) {
        if (!then[s].contains(name) || !now[g].contains(name) || then[s][name] == now[g][name]) return;
        set(member, now[g][name]);
        changes[name + " " + now[g][name].dump() + " (was " + then[s][name].dump() + ")"].push_back(shared);
      });
    }
  }
  std::vector<std::string> texts;
  for (const auto& [change, parameters] : changes) {
    texts.push_back(parameters.size() == pairs ? change : change + " for " + join(parameters));
  }
  return texts;
}

}  // namespace mn
