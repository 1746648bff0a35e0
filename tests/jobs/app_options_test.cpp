// From the command line to what trains: each option arrives where the library reads it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/app/setup.hpp>
#include <mn/core/error.hpp>
#include <mn/core/options.hpp>

namespace mn::app {
namespace {

CommonOptions parsed(std::vector<const char*> arguments) {
  CommonOptions common;
  Options options("fit [options]: a test");
  add_common_options(options, common);
  arguments.insert(arguments.begin(), "fit");
  EXPECT_EQ(options.parse(static_cast<int>(arguments.size()), arguments.data()), Options::Action::kRun);
  return common;
}

OptimizerOptions ways_of(std::vector<const char*> arguments) { return optimizer_options(parsed(std::move(arguments))); }

TEST(AppOptions, SayHowRanksTrainTogether) {
  EXPECT_EQ(ways_of({}).overlap, std::nullopt);
  EXPECT_EQ(ways_of({"--overlap"}).overlap, true);
  EXPECT_EQ(ways_of({"--overlap", "off"}).overlap, false);
  EXPECT_FALSE(ways_of({}).double_buffering);
  EXPECT_TRUE(ways_of({"--double-buffering"}).double_buffering);
  EXPECT_EQ(ways_of({"--compress", "bf16"}).compression.kind, Compression::kBf16);
  EXPECT_EQ(ways_of({"--compress", "topk", "--compress-density", "0.25"}).compression.density, 0.25);
  EXPECT_EQ(ways_of({"--compress", "powersgd", "--compress-rank", "7"}).compression.rank, 7);
  EXPECT_EQ(ways_of({"--local-steps", "5"}).local_steps, 5);
  EXPECT_EQ(ways_of({"--local-steps", "5", "--outer-momentum", "0.3"}).outer_momentum, 0.3);
  EXPECT_EQ(ways_of({"--check-parameters", "3"}).check_parameters, 3);
  EXPECT_TRUE(ways_of({"--deterministic"}).deterministic);
  EXPECT_FALSE(ways_of({"--precision", "bf16"}).grad_scaler);
  EXPECT_TRUE(ways_of({"--precision", "fp16"}).grad_scaler);
  EXPECT_EQ(ways_of({}).trace, nullptr);
  EXPECT_NE(ways_of({"--profile"}).trace, nullptr);
}

TEST(AppOptions, SayHowLongToTrainAndWhere) {
  const CommonOptions common =
      parsed({"--epoch", "7", "--iterations", "30", "--accumulate", "4", "--out", "there", "--profile"});
  const OptimizerOptions how = optimizer_options(common);
  const TrainerOptions options = trainer_options(common, how);
  EXPECT_EQ(options.epochs, 7);
  EXPECT_EQ(options.iterations, 30);
  EXPECT_EQ(options.accumulate, 4);
  EXPECT_EQ(options.out, "there");
  EXPECT_EQ(options.trace, how.trace);
  const TrainerOptions trial = trainer_options(parsed({"--iterations", "30", "--one-batch", "--out", "there"}), how);
  EXPECT_EQ(trial.iterations, 1);
  EXPECT_EQ(trial.out, "there/one-batch") << "a training may be in --out";
}

/// The options of the first group of parameters, which is decayed.
template <class TorchOptions>
TorchOptions settings_of(std::vector<const char*> arguments) {
  const torch::nn::Linear model(3, 4);
  const auto optimizer = make_optimizer(parsed(std::move(arguments)), 0.125, *model);
  EXPECT_EQ(optimizer->param_groups().front().options().get_lr(), 0.125);
  return static_cast<const TorchOptions&>(optimizer->param_groups().front().options());
}

TEST(AppOptions, ReachTheOptimizer) {
  for (const char* name : {"sgd", "lars"}) {
    const auto settings =
        settings_of<torch::optim::SGDOptions>({"--optimizer", name, "--momentum", "0.5", "--weight-decay", "0.25"});
    EXPECT_EQ(settings.momentum(), 0.5) << name;
    EXPECT_EQ(settings.weight_decay(), 0.25) << name;
  }
  const std::vector<const char*> moments = {"--beta1", "0.75", "--beta2", "0.875", "--weight-decay", "0.25"};
  const auto expect_moments = [](const auto& settings) {
    EXPECT_EQ(settings.betas(), std::make_tuple(0.75, 0.875));
    EXPECT_EQ(settings.weight_decay(), 0.25);
  };
  expect_moments(settings_of<torch::optim::AdamOptions>(moments));
  for (const char* name : {"adamw", "lamb"}) {
    std::vector<const char*> arguments = moments;
    arguments.insert(arguments.end(), {"--optimizer", name});
    expect_moments(settings_of<torch::optim::AdamWOptions>(arguments));
  }
}

/// The error of a command line; empty if there is none.
std::string error_of(std::vector<const char*> arguments) {
  try {
    (void)parsed(std::move(arguments));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(AppOptions, AreErrorsWhereTheyWouldHaveNoEffect) {
  struct Case {
    std::vector<const char*> option, with;  // without the second, the first has no effect
  };
  for (const Case& each : std::vector<Case>{{{"--momentum", "0.5"}, {"--optimizer", "lars"}},
                                            {{"--min-lr", "0.1"}, {"--schedule", "cosine"}},
                                            {{"--plateau-factor", "0.5"}, {"--schedule", "plateau"}},
                                            {{"--min-lr", "0.1"}, {"--schedule", "plateau"}},
                                            {{"--plateau-patience", "3"}, {"--schedule", "plateau"}},
                                            {{"--plateau-cooldown", "3"}, {"--schedule", "plateau"}},
                                            {{"--min-delta", "0.1"}, {"--early-stop", "3"}},
                                            {{"--stage-rate", "5"}, {"--stage", "x"}},
                                            {{"--stage-budget", "5"}, {"--stage", "x"}},
                                            {{"--compress-density", "0.5"}, {"--compress", "topk"}},
                                            {{"--compress-rank", "3"}, {"--compress", "powersgd"}},
                                            {{"--monitor", "main/loss"}, {"--best"}},
                                            {{"--monitor-better", "lower"}, {"--early-stop", "3"}},
                                            {{"--initmodel-partial"}, {"--initmodel", "x"}}}) {
    EXPECT_EQ(error_of(each.option).find(std::string(each.option[0]) + " has no effect without --"), 0U)
        << each.option[0] << ": " << error_of(each.option);
    std::vector<const char*> both = each.option;
    both.insert(both.end(), each.with.begin(), each.with.end());
    EXPECT_EQ(error_of(both), "");
  }
  for (const Case& each : std::vector<Case>{{{"--beta1", "0.5"}, {"--optimizer", "sgd"}},
                                            {{"--beta2", "0.5"}, {"--optimizer", "lars"}},
                                            {{"--warmup", "2"}, {"--schedule", "onecycle"}},
                                            {{"--warmup-iterations", "2"}, {"--schedule", "onecycle"}},
                                            {{"--warmup", "2"}, {"--warmup-iterations", "2"}},
                                            {{"--keep", "2"}, {"--checkpoint-every", "none"}},
                                            {{"--initmodel", "x"}, {"--evaluate", "x"}},
                                            {{"--initmodel", "x"}, {"--resume", "x"}},
                                            {{"--resume", "x"}, {"--evaluate", "x"}}}) {
    EXPECT_EQ(error_of(each.option), "");
    std::vector<const char*> both = each.option;
    both.insert(both.end(), each.with.begin(), each.with.end());
    EXPECT_EQ(error_of(both).find(std::string(each.option[0]) + " has no effect with"), 0U) << error_of(both);
  }
  EXPECT_EQ(error_of({"--resume", "auto", "--initmodel", "x", "--warmup", "0", "--schedule", "onecycle"}), "");
}

/// 3 epochs of 60 updates.
Schedule schedule_of(std::vector<const char*> arguments) {
  return make_schedule(parsed(std::move(arguments)), 1, {.updates = 60, .epochs = 3});
}

TEST(AppOptions, SetTheRateOverTime) {
  EXPECT_EQ(schedule_of({})(100), 1);
  EXPECT_EQ(schedule_of({"--schedule", "plateau"})(100), 1);
  const Schedule steps = schedule_of({"--schedule", "step"});
  for (const auto& [iteration, rate] : {std::pair(59, 1.0), {60, 0.1}, {120, 0.01}, {160, 0.001}}) {
    EXPECT_NEAR(steps(iteration), rate, 1e-12) << iteration;
  }
  const Schedule cosine = schedule_of({"--schedule", "cosine", "--min-lr", "0.25"});
  EXPECT_EQ(cosine(0), 1);
  EXPECT_NEAR(cosine(90), 0.625, 1e-12);
  EXPECT_EQ(cosine(180), 0.25);
  EXPECT_EQ(schedule_of({"--schedule", "cosine"})(180), 0);
  EXPECT_LT(schedule_of({"--schedule", "onecycle"})(0), 0.1);
  // Warm-ups end after an epoch and a half, and after 30 updates.
  const Schedule epochs = schedule_of({"--warmup", "1.5", "--optimizer", "lamb"});
  EXPECT_EQ(epochs(0), 0);
  EXPECT_DOUBLE_EQ(epochs(45), 0.5);
  EXPECT_EQ(epochs(90), 1);
  const Schedule updates = schedule_of({"--warmup-iterations", "30", "--optimizer", "lamb"});
  EXPECT_DOUBLE_EQ(updates(15), 0.5);
  EXPECT_EQ(updates(30), 1);
}

}  // namespace
}  // namespace mn::app
