// From the command line to what trains: each option arrives where the library reads it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/app/find_rate.hpp>
#include <mn/app/group_options.hpp>
#include <mn/app/group_schedules.hpp>
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
  EXPECT_EQ(ways_of({"--overlap-ctas", "8"}).nccl_limits.max_ctas, 8);
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
  EXPECT_FALSE(ways_of({"--precision", "bf16-parameters", "--optimizer", "sgd"}).grad_scaler);
  EXPECT_THROW(ways_of({"--precision", "bf16-parameters", "--optimizer", "lamb"}), UsageError);
  EXPECT_EQ(ways_of({}).trace, nullptr);
  EXPECT_NE(ways_of({"--profile"}).trace, nullptr);
}

TEST(AppOptions, SayWhatGpusKeepOnTheHost) {
  EXPECT_FALSE(parse_offload("none").activations);
  EXPECT_FALSE(parse_offload("optimizer").activations);
  EXPECT_TRUE(parse_offload("activations").activations);
  EXPECT_FALSE(ways_of({"--offload", "activations"}).shard.offload);
  EXPECT_TRUE(ways_of({"--offload", "activations,optimizer", "--shard", "gradients"}).shard.offload);
  EXPECT_THROW(ways_of({"--offload", "optimizer"}), UsageError);
  EXPECT_THROW(ways_of({"--offload", "gradients"}), UsageError);
  EXPECT_THROW(ways_of({"--offload", "activations", "--cuda-graph"}), UsageError);
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
  const std::vector<const char*> moments = {"--beta1", "0.75", "--beta2",        "0.875",
                                            "--eps",   "0.5",  "--weight-decay", "0.25"};
  const auto expect_moments = [](const auto& settings) {
    EXPECT_EQ(settings.betas(), std::make_tuple(0.75, 0.875));
    EXPECT_EQ(settings.eps(), 0.5);
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
                                            {{"--min-lr", "0.1"}, {"--schedule", "linear"}},
                                            {{"--min-lr", "0.1"}, {"--schedule", "cosine"}},
                                            {{"--min-lr", "0.1"}, {"--schedule", "wsd"}},
                                            {{"--cooldown", "0.1"}, {"--schedule", "wsd"}},
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
                                            {{"--initmodel-partial"}, {"--initmodel", "x"}},
                                            {{"--decay-all"}, {"--weight-decay", "0.1"}},
                                            {{"--outer-momentum", "0.5"}, {"--local-steps", "4"}}}) {
    EXPECT_EQ(error_of(each.option).find(std::string(each.option[0]) + " has no effect without --"), 0U)
        << each.option[0] << ": " << error_of(each.option);
    std::vector<const char*> both = each.option;
    both.insert(both.end(), each.with.begin(), each.with.end());
    EXPECT_EQ(error_of(both), "");
  }
  for (const Case& each : std::vector<Case>{{{"--beta1", "0.5"}, {"--optimizer", "sgd"}},
                                            {{"--beta2", "0.5"}, {"--optimizer", "lars"}},
                                            {{"--eps", "0.5"}, {"--optimizer", "sgd"}},
                                            {{"--warmup", "2"}, {"--schedule", "onecycle"}},
                                            {{"--warmup-iterations", "2"}, {"--schedule", "onecycle"}},
                                            {{"--warmup", "2"}, {"--warmup-iterations", "2"}},
                                            {{"--find-lr"}, {"--evaluate", "x"}},
                                            {{"--one-batch"}, {"--find-lr"}},
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
  EXPECT_EQ(error_of({"--decay-all", "--group", "0:decay=0.5"}), "");
  EXPECT_EQ(error_of({"--weight-decay", "1", "--decay-all", "--optimizer", "lars"}),
            "--decay-all has no effect with --optimizer lars or lamb");
}

/// Each option for a training, alone and beside an option after which the job trains nothing.
TEST(AppOptions, OfATrainingAreErrorsBesideOtherWork) {
  using Words = std::vector<const char*>;
  const std::vector<Words> of_training = {{"--epoch", "3"},
                                          {"--iterations", "3"},
                                          {"--lr", "0.1"},
                                          {"--best"},
                                          {"--schedule", "step"},
                                          {"--warmup", "1"},
                                          {"--ema", "0.9"},
                                          {"--norms", "2"},
                                          {"--early-stop", "2"},
                                          {"--val-every", "5i"},
                                          {"--profile"},
                                          {"--checkpoint-every", "3i"},
                                          {"--tensorboard"},
                                          {"--keep", "2"},
                                          {"--warmup-iterations", "3"}};
  const std::vector<Words> of_updates = {{"--optimizer", "sgd"}, {"--accumulate", "2"},       {"--weight-decay", "1"},
                                         {"--balance"},          {"--group", "0:rate=2"},     {"--compress", "fp16"},
                                         {"--clip-norm", "1"},   {"--double-buffering"},      {"--local-steps", "4"},
                                         {"--cuda-graph"},       {"--check-parameters", "5"}, {"--overlap"},
                                         {"--overlap-ctas", "8"}};
  const auto error_beside = [](Words option, const Words& other) {
    option.insert(option.end(), other.begin(), other.end());
    return error_of(option);
  };
  for (const Words& option : of_training) {
    EXPECT_EQ(error_of(option), "");
    EXPECT_EQ(error_beside(option, {"--find-lr"}),
              option[0] + std::string(" has no effect with --find-lr, which sets the learning rate itself and trains "
                                      "nothing"));
    EXPECT_EQ(error_beside(option, {"--evaluate", "x"}),
              option[0] + std::string(" has no effect with --evaluate, which trains nothing"));
  }
  for (const Words& option : of_updates) {
    EXPECT_EQ(error_beside(option, {"--find-lr"}), "");
    EXPECT_EQ(error_beside(option, {"--evaluate", "x"}),
              option[0] + std::string(" has no effect with --evaluate, which trains nothing"));
  }
  EXPECT_EQ(error_of({"--find-lr", "--lr", "1", "--early-stop", "3", "--epoch", "2", "--resume", "auto"})
                .find("--lr, --early-stop, --epoch have no effect with --find-lr"),
            0U)
      << "one line names all";
  EXPECT_NE(error_of({"--find-lr", "--resume", "x"}), "");
  EXPECT_NE(error_of({"--find-lr", "--group", "0:schedule=cosine"}), "");
  EXPECT_EQ(error_of({"--one-batch", "--epoch", "9", "--early-stop", "3"}), "") << "a trial of a whole command line";
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
  EXPECT_NEAR(schedule_of({"--schedule", "linear", "--min-lr", "0.5"})(90), 0.75, 1e-12);
  const Schedule wsd = schedule_of({"--schedule", "wsd", "--cooldown", "0.5", "--min-lr", "0.2"});
  EXPECT_EQ(wsd(90), 1);
  EXPECT_NEAR(wsd(135), 0.6, 1e-12);
  EXPECT_NEAR(wsd(180), 0.2, 1e-12);
  EXPECT_LT(schedule_of({"--schedule", "onecycle"})(0), 0.1);
  // Warm-ups end after an epoch and a half, and after 30 updates.
  const Schedule epochs = schedule_of({"--warmup", "1.5", "--optimizer", "lamb"});
  EXPECT_EQ(epochs(0), 0);
  EXPECT_DOUBLE_EQ(epochs(45), 0.5);
  EXPECT_EQ(epochs(90), 1);
  const Schedule updates = schedule_of({"--warmup-iterations", "30", "--optimizer", "lamb"});
  EXPECT_DOUBLE_EQ(updates(15), 0.5);
  EXPECT_EQ(updates(30), 1);
  for (const char* name : {"linear", "cosine"}) {
    const Schedule falling = schedule_of({"--schedule", name, "--warmup-iterations", "30", "--optimizer", "lamb"});
    EXPECT_DOUBLE_EQ(falling(15), 0.5) << name;
    EXPECT_EQ(falling(30), 1) << name << ": the rate reaches its highest value";
    EXPECT_NEAR(falling(105), 0.5, 1e-12) << name << ": half of the updates after the warm-up";
    EXPECT_EQ(falling(180), 0) << name;
  }
  const Schedule short_one = schedule_of({"--schedule", "linear", "--warmup-iterations", "200"});
  EXPECT_NEAR(short_one(179), 179.0 / 200, 1e-12) << "a warm-up that is longer than the training";
}

TEST(AppOptions, DivideTheParametersIntoGroups) {
  const torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Linear(4, 2));
  const auto decays = [&](std::vector<const char*> arguments) {
    std::vector<std::pair<double, double>> all;
    const auto optimizer = make_optimizer(parsed(std::move(arguments)), 0.125, *model);
    for (const auto& group : optimizer->param_groups()) {
      const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
      all.emplace_back(options.lr(), options.weight_decay());
    }
    return all;
  };
  using Pairs = std::vector<std::pair<double, double>>;
  const std::vector<const char*> sgd = {"--optimizer", "sgd", "--weight-decay", "0.5"};
  const auto with = [&](std::vector<const char*> more) {
    more.insert(more.begin(), sgd.begin(), sgd.end());
    return more;
  };
  EXPECT_EQ(decays(sgd), (Pairs{{0.125, 0.5}, {0.125, 0}}));
  EXPECT_EQ(decays(with({"--decay-all"})), (Pairs{{0.125, 0.5}}));
  const auto given = with({"--group", "1:rate=0.5,decay=0", "--group", "*.bias: rate=2"});
  EXPECT_EQ(decays(given), (Pairs{{0.125, 0.5}, {0.0625, 0}, {0.25, 0}}));
  EXPECT_EQ(group_names(parsed(given), *model), (std::vector<std::string>{"", "1", "*.bias"}));
  for (const char* name : {"lars", "lamb"}) {
    EXPECT_EQ(make_optimizer(parsed({"--optimizer", name, "--group", "1:rate=2"}), 1, *model)->param_groups().size(),
              2U);
  }
  for (const char* wrong : {"1", ":rate=1", "1:", "1:rate=x", "1:rate=-1", "1:speed=2", "1:rate", "1:freeze=1.5",
                            "1:schedule=plateau", "1:schedule=onecycle,warmup=1", "1:rate=2,rate=3",
                            "1:freeze,freeze=2", "1:freeze,rate=2", "1:schedule=cosine,freeze"}) {
    EXPECT_EQ(error_of({"--group", wrong}).find("--group \"" + std::string(wrong) + "\": "), 0U)
        << error_of({"--group", wrong});
  }
  EXPECT_NE(error_of({"--group", "1:rate=1", "--group", "1:decay=1"}), "");
  EXPECT_THROW((void)make_optimizer(parsed({"--group", "x:rate=1"}), 1, *model), UsageError);
}

/// 3 epochs of 60 updates; the groups "0" and "1" beside the head "2".
TEST(AppOptions, GiveEachGroupItsRateOverTime) {
  const torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Linear(4, 2), torch::nn::Linear(2, 2));
  const auto schedules = [&](std::vector<const char*> arguments, std::int64_t limit = 0) {
    const CommonOptions common = parsed(std::move(arguments));
    const TrainingSize size{.updates = 60, .limit = limit, .epochs = 3};
    return group_schedules(common, group_names(common, *model), make_schedule(common, 1, size), 1, size);
  };
  const auto common = schedules({"--schedule", "cosine", "--group", "0:rate=0.5", "--group", "1:freeze=1,rate=0.25"});
  EXPECT_EQ(common.size(), 3U);
  EXPECT_DOUBLE_EQ(common[0](90), 0.5);
  EXPECT_DOUBLE_EQ(common[1](90), 0.25);
  EXPECT_EQ(common[2](59), 0);
  EXPECT_DOUBLE_EQ(common[2](90), 0.125);
  const auto own = schedules({"--warmup", "1", "--group", "0:schedule=cosine", "--group",
                              "1:freeze=1,warmup=0.5,rate=0.5,schedule=step", "--optimizer", "lamb"});
  EXPECT_DOUBLE_EQ(own[0](30), 0.5);
  EXPECT_DOUBLE_EQ(own[1](0), 1) << "a curve of its own has a warm-up of its own";
  EXPECT_DOUBLE_EQ(own[1](90), 0.5);
  EXPECT_DOUBLE_EQ(own[2](59), 0);
  EXPECT_DOUBLE_EQ(own[2](75), 0.25);
  EXPECT_DOUBLE_EQ(own[2](99), 0.5) << "the first of two epochs of its own";
  EXPECT_DOUBLE_EQ(own[2](100), 0.05);
  const auto limited = schedules({"--group", "0:freeze=1,schedule=cosine"}, 90);
  EXPECT_DOUBLE_EQ(limited[1](75), 0.5) << "half of the 30 updates that are left";
  const auto rising = schedules({"--warmup-iterations", "30", "--optimizer", "lamb", "--group", "0:schedule=cosine"});
  EXPECT_DOUBLE_EQ(rising[0](15), 0.5);
  EXPECT_DOUBLE_EQ(rising[1](0), 1);
  const auto forever = schedules({"--group", "0:freeze=3,schedule=cosine", "--group", "1:freeze"});
  EXPECT_EQ(forever[1](179), 0);
  EXPECT_EQ(forever[2](179), 0);
}

TEST(AppOptions, APlateauLowersTheSchedulesThatFollowIt) {
  const torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Linear(4, 2), torch::nn::Linear(2, 2),
                                    torch::nn::Linear(2, 2));
  const CommonOptions common = parsed({"--schedule", "plateau", "--optimizer", "lamb", "--group", "0:schedule=cosine",
                                       "--group", "1:rate=0.5", "--group", "2:warmup=1"});
  const TrainingSize size{.updates = 60, .epochs = 3};
  const auto halved = [](const Schedule& before) { return scaled_schedule(0.5, before); };
  const auto schedules =
      group_schedules(common, group_names(common, *model), make_schedule(common, 1, size), 1, size, halved);
  std::vector<double> rates;
  for (const Schedule& each : schedules) rates.push_back(each(90));
  EXPECT_EQ(rates, (std::vector<double>{0.5, 0.5, 0.25, 0.5})) << "without --group, and the groups 0, 1, 2";
}

TEST(AppOptions, SearchForARate) {
  const auto search = rate_search_options(parsed({"--find-lr"}).find_lr);
  EXPECT_EQ(search.first, 1e-7);
  EXPECT_EQ(search.last, 10);
  EXPECT_EQ(search.steps, 100);
  EXPECT_EQ(rate_search_options("1e-3,0.5,30").steps, 30);
  for (const char* wrong : {"1", "1,2", "1,2,x", "1,2,3,4", "1,2,3.5"}) {
    EXPECT_THROW((void)rate_search_options(wrong), UsageError) << wrong;
  }
  CommonOptions common = parsed({"--find-lr", "1e-3,0.5,30", "--out", "there"});
  common.iterations = 7;  // as a --config file may set it
  const TrainerOptions options = trainer_options(common, {});
  EXPECT_EQ(options.out, "there/find-lr") << "a training may be in --out";
  EXPECT_EQ(options.iterations, 30);
  EXPECT_EQ(options.epochs, 0);
  EXPECT_FALSE(options.checkpoint_on_signal);
}

}  // namespace
}  // namespace mn::app
