#include <mn/app/update.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <mn/app/group_options.hpp>
#include <mn/core/error.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/fused_sgd.hpp>
#include <mn/optimizers/lamb.hpp>
#include <mn/optimizers/lars.hpp>
#include <mn/optimizers/parameter_groups.hpp>
#include <mn/tensor/modules.hpp>

namespace mn::app {
namespace {

bool starts_at_zero(const UpdateOptions& update) {
  // The warm-up starts at the rate 0 in two cases. LARS and LAMB are for large minibatches, for which even the rate of
  // a small minibatch is no safe start. Without lr_samples, the rate of a small minibatch is unknown.
  return update.lr_samples == 0 || update.optimizer == "lars" || update.optimizer == "lamb";
}

/// LARS and LAMB exempt biases and normalizations from weight decay themselves.
Decay decay_of(const UpdateOptions& update) {
  const bool decides = update.optimizer == "lars" || update.optimizer == "lamb";
  return update.decay_all || decides ? Decay::kAll : Decay::kWeights;
}

template <class Optimizer, class TorchOptions>
std::unique_ptr<torch::optim::Optimizer> make(const UpdateOptions& update, const torch::nn::Module& model,
                                              const TorchOptions& settings) {
  const std::vector<GroupRule> rules = rules_of(parse_groups(update.groups));
  try {
    return mn::make_optimizer<Optimizer>(parameter_groups(model, settings, rules, decay_of(update)).groups, settings);
  } catch (const ArgumentError& error) {
    if (rules.empty()) throw;
    throw UsageError(std::string("--group: ") + error.what());
  }
}

template <class TorchOptions>
TorchOptions adam_options(const UpdateOptions& update, double rate) {
  return TorchOptions(rate).betas({update.beta1, update.beta2}).eps(update.eps).weight_decay(update.weight_decay);
}

bool has_decay(const UpdateOptions& update) {
  return update.weight_decay > 0 || std::ranges::any_of(parse_groups(update.groups), [](const Group& group) {
           return group.rule.weight_decay.value_or(0) > 0;
         });
}

std::vector<Options::Condition> conditions_of(const UpdateOptions& update) {
  const auto any_of = [](const std::string& chosen, std::vector<std::string> names) {
    return [&chosen, names = std::move(names)] { return std::ranges::find(names, chosen) != names.end(); };
  };
  const auto moments = any_of(update.optimizer, {"adam", "adamw", "lamb"});
  const auto plateau = any_of(update.schedule, {"plateau"});
  const auto no_cycle = [&update] { return update.schedule != "onecycle"; };
  const std::string without_moments = "without --optimizer adam, adamw or lamb";
  const std::string without_plateau = "without --schedule plateau";
  const std::string with_cycle = "with --schedule onecycle, which rises by itself";
  return {{"momentum", any_of(update.optimizer, {"sgd", "lars"}), "without --optimizer sgd or lars"},
          {"decay-all", any_of(update.optimizer, {"sgd", "adam", "adamw"}), "with --optimizer lars or lamb"},
          {"decay-all", [&update] { return has_decay(update); }, "without --weight-decay"},
          {"beta1", moments, without_moments},
          {"beta2", moments, without_moments},
          {"eps", moments, without_moments},
          {"min-lr", any_of(update.schedule, {"linear", "cosine", "wsd", "plateau"}),
           "without --schedule linear, cosine, wsd or plateau"},
          {"cooldown", any_of(update.schedule, {"wsd"}), "without --schedule wsd"},
          {"plateau-factor", plateau, without_plateau},
          {"plateau-patience", plateau, without_plateau},
          {"plateau-cooldown", plateau, without_plateau},
          {"warmup", no_cycle, with_cycle},
          {"warmup", [&update] { return update.warmup_iterations == 0; },
           "without --warmup-iterations 0: those count in place of it"},
          {"warmup-iterations", no_cycle, with_cycle}};
}

/// The schedule without its warm-up.
/// A straight line and a cosine begin to fall after `rising` updates, as in nanoGPT, torchvision and transformers.
Schedule curve(const UpdateOptions& update, double top, std::int64_t rising, std::int64_t updates) {
  if (update.schedule == "step") return step_schedule(top, {updates / 3, updates * 2 / 3, updates * 8 / 9});
  if (update.schedule == "constant" || update.schedule == "plateau") return constant_schedule(top);
  if (update.min_lr > top) {
    throw UsageError("--min-lr " + std::to_string(update.min_lr) + " is above the learning rate, " +
                     std::to_string(top));
  }
  if (update.schedule == "wsd") return wsd_schedule(top, updates, update.cooldown, update.min_lr);
  const auto make = update.schedule == "linear" ? linear_schedule : cosine_schedule;
  return holding(rising, make(top, std::max<std::int64_t>(updates - rising, 1), update.min_lr));
}

}  // namespace

void add_update_options(Options& options, UpdateOptions& update) {
  const std::string scaled = update.lr_samples == 0
                                 ? ""
                                 : " for " + std::to_string(update.lr_samples) +
                                       " samples in an update, scaled in proportion to those of all ranks";
  options.add("optimizer", update.optimizer, "NAME", "sgd, adam, adamw, lars or lamb",
              {"sgd", "adam", "adamw", "lars", "lamb"});
  options.add("lr", update.lr, "learning rate" + scaled + "; 0: the default of the optimizer and the network", 0);
  options.add("momentum", update.momentum, "momentum of sgd and lars", 0, 1);
  options.add("beta1", update.beta1, "decay of the first moment of adam, adamw and lamb", 0, 1);
  options.add("beta2", update.beta2, "decay of the second moment of adam, adamw and lamb", 0, 1);
  options.add("eps", update.eps, "number that adam, adamw and lamb add to the root of the second moment", 0, 1);
  options.add("weight-decay", update.weight_decay,
              "weight decay of weights; of biases and normalizations only with --decay-all", 0);
  options.add_flag("decay-all", update.decay_all,
                   "--weight-decay also acts on biases and normalizations, as in torch's optimizers");
  options.add_list("group", update.groups, "PATTERN:SETTING,…",
                   "parameters whose names match PATTERN have settings of their own: rate=F (factor of the learning "
                   "rate), decay=X, freeze or freeze=N (epochs), schedule=NAME and warmup=N (epochs) of their own; may "
                   "be repeated, and the first match counts");
  options.add(
      "schedule", update.schedule, "NAME",
      "learning rate over time: constant, step (a tenth after 1/3, 2/3 and 8/9 of the epochs), linear, cosine, wsd "
      "(constant, then a linear fall in the last updates: --cooldown), onecycle, or plateau (lower when the monitored "
      "value no longer improves)",
      {"constant", "step", "linear", "cosine", "wsd", "onecycle", "plateau"});
  options.add("warmup", update.warmup, "epochs in which the learning rate rises", 0);
  options.add("warmup-iterations", update.warmup_iterations,
              "updates in which the learning rate rises, in place of --warmup", 0);
  options.add("min-lr", update.min_lr,
              "learning rate at the end of --schedule linear, cosine and wsd, and the lowest of --schedule plateau", 0);
  options.add("cooldown", update.cooldown, "part of all updates in which the rate of --schedule wsd falls", 0, 1);
  options.add("plateau-factor", update.plateau_factor, "factor of the learning rate in --schedule plateau", 0, 1);
  options.add("plateau-patience", update.plateau_patience,
              "reports without a better value before --schedule plateau lowers the rate", 1);
  options.add("plateau-cooldown", update.plateau_cooldown,
              "reports after --schedule plateau has lowered the rate that do not count", 0);
  options.add_check([&update] { (void)parse_groups(update.groups); });
  options.add_conditions(conditions_of(update));
}

double default_rate(const std::string& optimizer) {
  if (optimizer == "sgd") return 0.1;
  if (optimizer == "lars") return 0.3;
  return optimizer == "lamb" ? 0.002 : 0.001;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const UpdateOptions& update, double rate,
                                                        const torch::nn::Module& model) {
  const auto sgd = torch::optim::SGDOptions(rate).momentum(update.momentum).weight_decay(update.weight_decay);
  const auto adamw = adam_options<torch::optim::AdamWOptions>(update, rate);
  if (update.optimizer == "adam") {
    return make<FusedAdam>(update, model, adam_options<torch::optim::AdamOptions>(update, rate));
  }
  if (update.optimizer == "adamw") return make<FusedAdamW>(update, model, adamw);
  if (update.optimizer == "lamb") return make<Lamb>(update, model, adamw);
  if (update.optimizer == "lars") return make<Lars>(update, model, sgd);
  return make<FusedSgd>(update, model, sgd);
}

std::vector<std::string> group_names(const UpdateOptions& update, const torch::nn::Module& model) {
  const std::vector<GroupRule> rules = rules_of(parse_groups(update.groups));
  std::vector<std::string> names;
  for (const auto& each : plan_groups(named_parameters(model), rules, update.weight_decay, decay_of(update))) {
    names.push_back(each.rule ? rules[*each.rule].pattern : "");
  }
  return names;
}

Schedule make_schedule(const UpdateOptions& update, double rate, const TrainingSize& size) {
  const double top = update.lr_samples == 0 ? rate : scale_learning_rate(rate, size.samples, update.lr_samples);
  const std::int64_t all = size.epochs * size.updates;
  const std::int64_t total = size.limit > 0 ? std::min(size.limit, all) : all;
  if (update.schedule == "onecycle") return one_cycle_schedule(top, total);  // begins with a rise
  const auto rising = update.warmup_iterations > 0
                          ? update.warmup_iterations
                          : static_cast<std::int64_t>(std::llround(update.warmup * static_cast<double>(size.updates)));
  return warm_up(starts_at_zero(update) ? 0 : std::min(rate, top), rising, curve(update, top, rising, total));
}

}  // namespace mn::app
