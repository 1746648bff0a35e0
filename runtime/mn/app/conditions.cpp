#include <mn/app/conditions.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

#include <mn/app/group_options.hpp>
#include <mn/core/text.hpp>

namespace mn::app {
namespace {

/// Options that have an effect in a training and in a search for the learning rate.
constexpr std::string_view kOfUpdates =
    "accumulate balance optimizer momentum beta1 beta2 weight-decay decay-all group clip-norm overlap compress "
    "compress-rank compress-density local-steps double-buffering cuda-graph outer-momentum check-parameters "
    "overlap-ctas";

/// Options that have an effect only in a training.
constexpr std::string_view kOfTraining =
    "epoch iterations lr schedule warmup warmup-iterations min-lr plateau-factor plateau-patience plateau-cooldown ema "
    "norms monitor monitor-better best early-stop keep checkpoint-every min-delta val-every profile show-memory "
    "tensorboard";

void add_each(std::vector<Options::Condition>& conditions, std::string_view names, const std::function<bool()>& holds,
              const std::string& otherwise) {
  for (const std::string_view name : split(names, ' ')) conditions.push_back({std::string(name), holds, otherwise});
}

bool has_group_schedule(const CommonOptions& common) {
  return std::ranges::any_of(parse_groups(common.groups),
                             [](const Group& group) { return group.warmup || !group.schedule.empty(); });
}

/// Adds conditions for the options that have no effect with --find-lr or with --evaluate.
void add_other_work(std::vector<Options::Condition>& conditions, const CommonOptions& common) {
  const auto trains = [&common] { return common.find_lr.empty(); };
  const std::string searching = "with --find-lr, which sets the learning rate itself and trains nothing";
  add_each(conditions, kOfTraining, trains, searching);
  add_each(conditions, "one-batch", trains, searching);
  // With --find-lr, --resume auto is no error, because batch scripts always give --resume auto. The search ignores it.
  conditions.push_back({"resume", [&common] { return common.find_lr.empty() || common.resume == "auto"; }, searching});
  conditions.push_back({"group", [&common] { return common.find_lr.empty() || !has_group_schedule(common); },
                        "by a schedule or a warmup " + searching});
  const auto updates = [&common] { return common.evaluate.empty(); };
  const std::string evaluating = "with --evaluate, which trains nothing";
  conditions.push_back({"find-lr", updates, evaluating});
  conditions.push_back(
      {"resume", [&common] { return common.evaluate.empty() || common.resume == "auto"; }, evaluating});
  conditions.push_back({"initmodel", updates, "with --evaluate, which has weights of its own"});
  for (Options::Condition& each : training_conditions(updates, evaluating)) conditions.push_back(std::move(each));
}

}  // namespace

std::vector<Options::Condition> training_conditions(const std::function<bool()>& trains, const std::string& otherwise) {
  std::vector<Options::Condition> conditions;
  add_each(conditions, kOfUpdates, trains, otherwise);
  add_each(conditions, kOfTraining, trains, otherwise);
  return conditions;
}

std::vector<Options::Condition> effects_of(const CommonOptions& common) {
  std::vector<Options::Condition> conditions;
  add_other_work(conditions, common);
  const auto stages = [&common] { return !common.stage.empty(); };
  add_each(conditions, "stage-budget stage-rate", stages, "without --stage");
  const auto keeps_most = [&common] { return common.compress == "topk"; };
  add_each(conditions, "compress-density", keeps_most, "without --compress topk");
  const auto factors = [&common] { return common.compress == "powersgd"; };
  add_each(conditions, "compress-rank", factors, "without --compress powersgd");
  const auto shards = [&common] { return common.shard != "none"; };
  add_each(conditions, "shard-group", shards, "without --shard");
  const auto averages = [&common] { return common.local_steps > 1; };
  add_each(conditions, "outer-momentum", averages, "without --local-steps");
  const auto monitors = [&common] { return uses_monitor(common); };
  add_each(conditions, "monitor monitor-better", monitors, "without --best, --early-stop or --schedule plateau");
  const auto judges = [&common] { return common.early_stop > 0 || common.schedule == "plateau"; };
  add_each(conditions, "min-delta", judges, "without --early-stop or --schedule plateau");
  const auto saves = [&common] { return common.checkpoint_every != "none" || common.keep_best; };
  add_each(conditions, "keep", saves, "with --checkpoint-every none");
  const auto loads = [&common] { return !common.initmodel.empty(); };
  add_each(conditions, "initmodel-partial", loads, "without --initmodel");
  const auto starts = [&common] { return common.resume.empty() || common.resume == "auto"; };
  add_each(conditions, "initmodel", starts, "with --resume PATH, which has weights of its own");
  const auto goes_on = [&common] { return !common.one_batch || common.resume == "auto"; };
  add_each(conditions, "resume", goes_on, "with --one-batch, which is no part of a training");
  return conditions;
}

}  // namespace mn::app
