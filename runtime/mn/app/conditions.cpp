#include <mn/app/conditions.hpp>

#include <algorithm>
#include <string_view>

#include <mn/app/group_options.hpp>
#include <mn/core/text.hpp>

namespace mn::app {
namespace {

/// Options that have an effect in a training and in a search for the learning rate.
constexpr std::string_view kOfUpdates =
    "accumulate balance optimizer momentum beta1 beta2 weight-decay decay-all group clip-norm overlap compress "
    "compress-rank compress-density local-steps double-buffering cuda-graph outer-momentum check-parameters "
    "overlap-ctas offload";

/// Options that have an effect only in a training.
constexpr std::string_view kOfTraining =
    "epoch iterations lr schedule warmup warmup-iterations min-lr cooldown plateau-factor plateau-patience "
    "plateau-cooldown "
    "ema norms monitor monitor-better best early-stop keep checkpoint-every min-delta val-every profile show-memory "
    "tensorboard";

void add_each(std::vector<Options::Condition>& conditions, std::string_view names, const std::string& otherwise,
              const std::function<bool()>& holds) {
  for (const std::string_view name : split(names, ' ')) conditions.push_back({std::string(name), holds, otherwise});
}

bool has_group_schedule(const CommonOptions& common) {
  return std::ranges::any_of(parse_groups(common.groups),
                             [](const Group& group) { return group.warmup || !group.schedule.empty(); });
}

}  // namespace

std::vector<Options::Condition> training_conditions(const std::function<bool()>& trains, const std::string& otherwise) {
  std::vector<Options::Condition> conditions;
  add_each(conditions, kOfUpdates, otherwise, trains);
  add_each(conditions, kOfTraining, otherwise, trains);
  return conditions;
}

std::vector<Options::Condition> effects_of(const CommonOptions& common) {
  std::vector<Options::Condition> conditions;
  const auto add = [&](std::string_view names, const std::string& otherwise, const std::function<bool()>& holds) {
    add_each(conditions, names, otherwise, holds);
  };
  const auto trains = [&common] { return common.find_lr.empty(); };
  const std::string searching = "with --find-lr, which sets the learning rate itself and trains nothing";
  add(kOfTraining, searching, trains);
  add("one-batch", searching, trains);
  // With --find-lr, --resume auto is no error, because batch scripts always give --resume auto. The search ignores it.
  add("resume", searching, [&common] { return common.find_lr.empty() || common.resume == "auto"; });
  add("group", "by a schedule or a warmup " + searching,
      [&common] { return common.find_lr.empty() || !has_group_schedule(common); });
  const auto updates = [&common] { return common.evaluate.empty(); };
  const std::string evaluating = "with --evaluate, which trains nothing";
  add("find-lr", evaluating, updates);
  add("resume", evaluating, [&common] { return common.evaluate.empty() || common.resume == "auto"; });
  add("initmodel", "with --evaluate, which has weights of its own", updates);
  add(kOfUpdates, evaluating, updates);
  add(kOfTraining, evaluating, updates);
  add("stage-budget stage-rate", "without --stage", [&common] { return !common.stage.empty(); });
  add("compress-density", "without --compress topk", [&common] { return common.compress == "topk"; });
  add("compress-rank", "without --compress powersgd", [&common] { return common.compress == "powersgd"; });
  add("shard-group", "without --shard", [&common] { return common.shard != "none"; });
  add("outer-momentum", "without --local-steps", [&common] { return common.local_steps > 1; });
  add("monitor monitor-better", "without --best, --early-stop or --schedule plateau",
      [&common] { return uses_monitor(common); });
  add("min-delta", "without --early-stop or --schedule plateau",
      [&common] { return common.early_stop > 0 || common.schedule == "plateau"; });
  add("keep", "with --checkpoint-every none",
      [&common] { return common.checkpoint_every != "none" || common.keep_best; });
  add("initmodel-partial", "without --initmodel", [&common] { return !common.initmodel.empty(); });
  add("initmodel", "with --resume PATH, which has weights of its own",
      [&common] { return common.resume.empty() || common.resume == "auto"; });
  add("resume", "with --one-batch, which is no part of a training",
      [&common] { return !common.one_batch || common.resume == "auto"; });
  return conditions;
}

}  // namespace mn::app
