#include <mn/trainer/extensions/freezing.hpp>

#include <algorithm>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/core/name_pattern.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

bool is_in(const FrozenEpochs& rule, std::int64_t epoch) { return rule.from <= epoch && epoch < rule.until; }

/// Rank 0 logs, for instance, "from epoch 4 on 12 parameters (trunk.0.weight, …) are trained".
void log_change(const Trainer& trainer, const std::vector<std::string>& names, const std::string& what) {
  if (!trainer.is_root() || names.empty()) return;
  log_info(
      "from epoch " + std::to_string(trainer.epoch() + 1) + " on " + std::to_string(names.size()) +
      (names.size() == 1 ? " parameter (" + names.front() + ") is " : " parameters (" + names.front() + ", …) are ") +
      what);
}

}  // namespace

Freezing::Freezing(std::vector<FrozenEpochs> rules) : rules_(std::move(rules)) {
  for (const FrozenEpochs& rule : rules_) {
    if (rule.from >= 0 && rule.until >= 0) continue;
    throw ArgumentError("the epochs in which \"" + rule.pattern + "\" is frozen must be at least 0");
  }
}

bool Freezing::is_known(const std::string& name) const {
  return std::ranges::any_of(rules_, [&](const FrozenEpochs& rule) { return matches_name(rule.pattern, name); });
}

bool Freezing::is_frozen(const std::string& name, std::int64_t epoch) const {
  return std::ranges::any_of(
      rules_, [&](const FrozenEpochs& rule) { return is_in(rule, epoch) && matches_name(rule.pattern, name); });
}

std::vector<std::string> Freezing::apply(torch::nn::Module& model, std::int64_t epoch) const {
  const NamedTensors parameters = named_parameters(model);
  for (const FrozenEpochs& rule : rules_) {
    const auto matches = [&](const auto& named) { return matches_name(rule.pattern, named.first); };
    if (std::ranges::any_of(parameters, matches)) continue;
    throw ArgumentError("no parameter is to freeze: \"" + rule.pattern + "\" matches no name" +
                        (parameters.empty() ? "" : "; names are like \"" + parameters.front().first + "\""));
  }
  std::vector<std::string> changed;
  for (const auto& [name, parameter] : parameters) {
    if (!is_known(name) || !parameter.is_floating_point() || parameter.requires_grad() != is_frozen(name, epoch))
      continue;
    at::Tensor(parameter).set_requires_grad(!is_frozen(name, epoch));
    changed.push_back(name);
  }
  const auto trains = [](const auto& named) { return named.second.requires_grad(); };
  if (std::ranges::none_of(parameters, trains)) {
    throw UsageError("every parameter of the model is frozen after " + std::to_string(epoch) +
                     (epoch == 1 ? " epoch" : " epochs") + ": there is nothing to train");
  }
  set_statistics_modes(model, [&](const std::string& name) -> std::optional<bool> {
    if (!is_known(name)) return std::nullopt;
    return !is_frozen(name, epoch);
  });
  return changed;
}

void Freezing::initialize(Trainer& trainer) {
  static_cast<void>(apply(trainer.model(), trainer.epoch()));
  std::vector<std::string> frozen = frozen_parameters(trainer.model());
  std::erase_if(frozen, [&](const std::string& name) { return !is_known(name); });
  log_change(trainer, frozen, "frozen");
}

void Freezing::run(Trainer& trainer) {
  std::vector<std::string> frozen, trained;
  for (const std::string& name : apply(trainer.model(), trainer.epoch())) {
    (is_frozen(name, trainer.epoch()) ? frozen : trained).push_back(name);
  }
  log_change(trainer, frozen, "frozen");
  log_change(trainer, trained, "trained");
}

}  // namespace mn::extensions
