// Extensions that act on a metric: plateau, early end, the best checkpoint; averaged weights; rates of groups.
#include <cerrno>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/trainer/extensions/early_stopping.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/plateau.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/support/failing_calls.hpp"
#include "tests/train/metric_job.hpp"

namespace mn {
namespace {

using extensions::Better;
using extensions::Monitor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::MetricJob;
using toy::same_on_all;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

TEST(MonitorTest, KnowsWhatIsBetter) {
  EXPECT_EQ(extensions::better_of("validation/main/accuracy"), Better::kHigher);
  EXPECT_EQ(extensions::better_of("validation/main/loss"), Better::kLower);
  EXPECT_EQ(extensions::better_of("validation/main/mean_IoU"), Better::kHigher);
  EXPECT_EQ(extensions::better_of("main/dice_loss"), Better::kLower);
  EXPECT_EQ(extensions::better_of("loss/main/score"), std::nullopt);
  const extensions::LogReport log;
  EXPECT_THROW(Monitor(log, "elapsed_time", Better::kLower), UsageError);
}

TEST(MonitorTest, NamesTheValuesOfALogThatLacksOne) {
  const TestFolder folder(world());
  MetricJob job(folder, {1, 2});
  job.add<extensions::EarlyStopping>(Monitor(*job.log, "metrics", Better::kLower), 1);
  EXPECT_THAT([&] { return job.trainer->run(); },
              ThrowsMessage<UsageError>(testing::AllOf(HasSubstr("no value \"metrics\""), HasSubstr(" metric"))));
}

/// A validation once in a while beside a log of every iteration.
TEST(MonitorTest, ReportsWithoutTheValueDoNotCount) {
  const TestFolder folder(world());
  const double none = -1;
  const auto train = [&](std::vector<double> values, const std::string& name) {
    MetricJob job(folder, std::move(values), none);
    job.add<extensions::EarlyStopping>(Monitor(*job.log, name, Better::kLower), 2);
    job.add<extensions::BestSnapshot>(Monitor(*job.log, name, Better::kLower));
    EXPECT_EQ(job.trainer->run(), 0);
    return job.trainer->iteration();
  };
  EXPECT_EQ(train({none, 3, none, none, none, 4, none, 5, none, 1}, "metric"), 8);
  EXPECT_EQ(train({none, none, none}, "validation/main/loss"), 3);
  EXPECT_THAT([&] { train({none, none}, "main/los"); }, ThrowsMessage<UsageError>(HasSubstr("main/loss")));
}

/// A metric that not each evaluation has, beside others of the same evaluation.
TEST(MonitorTest, AValueMayComeLate) {
  const TestFolder folder(world());
  const auto train = [&](const std::string& name) {
    ToyJob job(world(), {.trainer = {.iterations = 7, .out = folder.path()}});
    job.trainer->extend("evaluation", MetricJob::kEach, [](Trainer& trainer) {
      trainer.report("validation/main/loss", 1);
      trainer.report("validation/main/acc", 1);
      if (trainer.iteration() > 2) trainer.report("validation/main/auc", 1);
    });
    const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = MetricJob::kEach});
    job.trainer->extend(std::make_unique<extensions::EarlyStopping>(Monitor(log, name, Better::kHigher), 2),
                        {.trigger = MetricJob::kEach});
    EXPECT_EQ(job.trainer->run(), 0);
    return job.trainer->iteration();
  };
  EXPECT_EQ(train("validation/main/auc"), 5);
  EXPECT_EQ(train("validation/main/perplexity"), 7) << "never there";
  testing::internal::CaptureStderr();
  EXPECT_EQ(train("validation/clean/main/acc"), 7) << "the log has another set";
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(printed.find("no value \"validation/clean/main/acc\" to monitor") != std::string::npos,
            world()->rank() == 0);
  for (const char* wrong : {"validation/main/los", "valdation/main/acc", "valid/main/auc"}) {
    EXPECT_THAT([&] { train(wrong); }, ThrowsMessage<UsageError>(HasSubstr("; did you mean validation/main/")))
        << wrong;
  }
}

TEST(EarlyStoppingTest, EndsAllRanksAfterReportsThatAreNotBetter) {
  const TestFolder folder(world());
  const double nan = std::nan("");
  for (const auto& [better, end] : {std::pair{Better::kLower, 6}, std::pair{Better::kHigher, 4}}) {
    MetricJob job(folder, {3, 4, 2, 2, nan, 5, 1, 0});
    job.add<extensions::EarlyStopping>(Monitor(*job.log, "metric", better), better == Better::kLower ? 3 : 2);
    EXPECT_EQ(job.trainer->run(), 0);
    EXPECT_EQ(job.trainer->iteration(), end);
    EXPECT_TRUE(same_on_all(std::to_string(job.trainer->iteration())));
  }
  MetricJob job(folder, {1});
  EXPECT_THROW(extensions::EarlyStopping(Monitor(*job.log, "metric", Better::kLower), 0), UsageError);
}

TEST(EarlyStoppingTest, CountsOnAfterAResumeAndStaysEnded) {
  const TestFolder folder(world());
  const auto train = [&](std::vector<double> values, const std::string& from) {
    MetricJob job(folder, std::move(values));
    job.add<extensions::EarlyStopping>(Monitor(*job.log, "metric", Better::kLower), 3);
    job.add<extensions::Snapshot>();
    if (!from.empty()) job.trainer->resume(from);
    EXPECT_EQ(job.trainer->run(), 0);
    return job.trainer->iteration();
  };
  EXPECT_EQ(train({1, 2, 2}, ""), 3);
  EXPECT_EQ(train({1, 2, 2, 2, 0, 0, 0}, "auto"), 4);
  EXPECT_EQ(train({1, 2, 2, 2, 0, 0, 0}, "auto"), 4);
}

/// What was best of another value, or in another direction, says nothing.
TEST(EarlyStoppingTest, BeginsAnewWithAnotherValue) {
  const TestFolder folder(world());
  const auto train = [&](std::vector<double> values, const std::string& name, Better better, const std::string& from) {
    MetricJob job(folder, std::move(values));
    job.trainer->extend("other", MetricJob::kEach, [](Trainer& trainer) {
      trainer.report("other", 100.0 - static_cast<double>(trainer.iteration()));
    });
    job.add<extensions::EarlyStopping>(Monitor(*job.log, name, better), 2);
    job.add<extensions::BestSnapshot>(Monitor(*job.log, name, better), std::size_t{9});
    job.add<extensions::Snapshot>(std::size_t{9});
    if (!from.empty()) job.trainer->resume(from);
    EXPECT_EQ(job.trainer->run(), 0);
    return job.trainer->iteration();
  };
  EXPECT_EQ(train({1, 2}, "metric", Better::kLower, ""), 2);
  const std::string second = checkpoint_path(folder.path(), 2).string();
  EXPECT_EQ(train({1, 2, 3, 3, 3, 3}, "metric", Better::kLower, second), 3);
  EXPECT_EQ(train({1, 2, 3, 4, 4, 4, 5}, "metric", Better::kHigher, second), 6);
  EXPECT_EQ(train({1, 2, 3, 3, 3, 3, 3, 3}, "other", Better::kLower, second), 8);
}

TEST(PlateauTest, LowersTheRateAndContinuesAfterAResume) {
  const TestFolder folder(world());
  const auto train = [&](std::vector<double> values, const std::string& from) {
    MetricJob job(folder, std::move(values));
    auto& plateau = job.add<extensions::Plateau>(Monitor(*job.log, "metric", Better::kLower),
                                                 extensions::PlateauOptions{.factor = 0.5, .patience = 2});
    job.trainer->extend(std::make_unique<extensions::LearningRate>(plateau.schedule(constant_schedule(8))));
    job.add<extensions::Snapshot>();
    std::vector<double> rates;
    job.trainer->extend("watch", MetricJob::kEach, [&](Trainer&) { rates.push_back(job.rate()); });
    if (!from.empty()) job.trainer->resume(from);
    EXPECT_EQ(job.trainer->run(), 0);
    return rates;
  };
  const std::vector<double> values = {5, 6, 6, 4, 4, 4, 4, 4};
  const auto whole = train(values, "");
  EXPECT_THAT(whole, ElementsAre(8, 8, 8, 4, 4, 4, 2, 2));  // those that the iterations used
  EXPECT_THAT(train(values, checkpoint_path(folder.path(), 6).string()), ElementsAre(2, 2));
  MetricJob job(folder, {1});
  EXPECT_THROW(extensions::Plateau(Monitor(*job.log, "metric", Better::kLower), {.factor = 1}), UsageError);
}

/// Keras' min_lr, and a cooldown of two reports after each fall.
TEST(PlateauTest, HasACooldownAndALowestRate) {
  const TestFolder folder(world());
  const auto train = [&](std::vector<double> values, const std::string& from) {
    MetricJob job(folder, std::move(values));
    auto& plateau = job.add<extensions::Plateau>(
        Monitor(*job.log, "metric", Better::kLower),
        extensions::PlateauOptions{.factor = 0.5, .patience = 1, .cooldown = 2, .min_rate = 3});
    job.trainer->extend(std::make_unique<extensions::LearningRate>(plateau.schedule(constant_schedule(8))));
    job.add<extensions::Snapshot>();
    std::vector<double> rates;
    job.trainer->extend("watch", MetricJob::kEach, [&](Trainer&) { rates.push_back(job.rate()); });
    if (!from.empty()) job.trainer->resume(from);
    EXPECT_EQ(job.trainer->run(), 0);
    return rates;
  };
  const std::vector<double> values(9, 5);
  testing::internal::CaptureStderr();
  EXPECT_THAT(train(values, ""), ElementsAre(8, 8, 4, 4, 4, 3, 3, 3, 3));
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string wanted = world()->rank() == 0 ? "falls to 0.25 of its schedule, but not below 3.0" : "";
  EXPECT_THAT(said, HasSubstr(wanted));
  EXPECT_THAT(train({5, 5, 5}, ""), ElementsAre(8, 8, 4));
  EXPECT_THAT(train(values, checkpoint_path(folder.path(), 3).string()), ElementsAre(4, 4, 3, 3, 3, 3));
  MetricJob job(folder, {1});
  const Monitor monitor(*job.log, "metric", Better::kLower);
  EXPECT_THROW(extensions::Plateau(monitor, {.cooldown = -1}), UsageError);
  EXPECT_THROW(extensions::Plateau(monitor, {.min_rate = -1}), UsageError);
}

/// The rates that PyTorch 2.11 gave for these values with patience 0, and Keras 3.15 with one more report of cooldown.
TEST(PlateauTest, FallsWherePyTorchAndKerasFall) {
  struct Case {
    Better better;
    std::int64_t cooldown;
    std::vector<double> values, rates;
  };
  const double nan = std::nan("");
  const Case cases[] = {{Better::kLower,
                         2,
                         {0, -0.75, -0.5, -1.25, -0.75, -1, -1, -1, -1, -1.25, -1, -1.25, -1.75, -1.5, -2, -2.25},
                         {1, 1, 1, 1 / 2., 1 / 2., 1 / 2., 1 / 4., 1 / 4., 1 / 4., 1 / 8., 1 / 8., 1 / 8., 1 / 16.,
                          1 / 16., 1 / 16., 1 / 32.}},
                        {Better::kHigher,
                         1,
                         {0.25, 0.5, 1.25, 1.25, 1.5, 1, 2, nan, 2, 2.25, 1.75, 2.5, 2.25, 2, 2.5, 2.75},
                         {1, 1, 1 / 2., 1 / 2., 1 / 4., 1 / 4., 1 / 8., 1 / 8., 1 / 16., 1 / 16., 1 / 32., 1 / 32.,
                          1 / 32., 1 / 64., 1 / 64., 1 / 64.}}};
  for (const Case& each : cases) {
    const TestFolder folder(world());
    MetricJob job(folder, each.values);
    auto& plateau = job.add<extensions::Plateau>(
        Monitor(*job.log, "metric", each.better, 0.25),
        extensions::PlateauOptions{.factor = 0.5, .patience = 1, .cooldown = each.cooldown, .min_rate = 1 / 64.});
    job.trainer->extend(std::make_unique<extensions::LearningRate>(plateau.schedule(constant_schedule(1))));
    std::vector<double> rates;
    job.trainer->extend("watch", MetricJob::kEach, [&](Trainer&) { rates.push_back(job.rate()); });
    EXPECT_EQ(job.trainer->run(), 0);
    EXPECT_EQ(rates, each.rates);
  }
}

TEST(EarlyStoppingTest, TakesNoSmallImprovementForBetter) {
  const TestFolder folder(world());
  const auto end_of = [&](std::vector<double> values, Better better) {
    MetricJob job(folder, std::move(values));
    job.add<extensions::EarlyStopping>(Monitor(*job.log, "metric", better, 1), 3);
    EXPECT_EQ(job.trainer->run(), 0);
    EXPECT_THAT(job.trainer->end_reason(), HasSubstr("metric was not better by more than 1.0 in 3 reports (best "));
    return job.trainer->iteration();
  };
  EXPECT_EQ(end_of({5, 4.5, 4, 3.75, 3.5, 3, 2.75, 0}, Better::kLower), 7);
  EXPECT_EQ(end_of({-5, -4.5, -4, -3.75, -3.5, -3, -2.75, 0}, Better::kHigher), 7);
  MetricJob job(folder, {1});
  EXPECT_THROW(Monitor(*job.log, "metric", Better::kLower, -1), UsageError);
}

TEST(BestSnapshotTest, HoldsTheBestReport) {
  const TestFolder folder(world());
  MetricJob job(folder, {3, 1, 2, std::nan(""), 1});
  job.add<extensions::BestSnapshot>(Monitor(*job.log, "metric", Better::kLower));
  job.add<extensions::Snapshot>(std::size_t{1});
  at::Tensor at_best;
  job.trainer->extend("watch", MetricJob::kEach, [&](Trainer& trainer) {
    if (trainer.iteration() == 2) at_best = job.weights();
  });
  EXPECT_EQ(job.trainer->run(), 0);
  MetricJob next(folder, {0, 0, 0, 4, 2});
  next.add<extensions::BestSnapshot>(Monitor(*next.log, "metric", Better::kLower));
  EXPECT_TRUE(next.trainer->resume((folder.path() / "snapshot_best").string()));
  EXPECT_EQ(next.trainer->iteration(), 2);
  EXPECT_TRUE(next.weights().equal(at_best));
  EXPECT_EQ(next.trainer->run(), 0);  // 0 is better
  MetricJob last(folder, {0, 0, 0, 0, 0});
  EXPECT_TRUE(last.trainer->resume((folder.path() / "snapshot_best").string()));
  EXPECT_EQ(last.trainer->iteration(), 3);
}

/// The link is to the best that has a checkpoint.
TEST(BestSnapshotTest, OneFailedSaveIsNotTheBestForever) {
  const TestFolder folder(world());
  const auto best = [&] { return std::filesystem::read_symlink(folder.path() / "snapshot_best").filename().string(); };
  for (const std::string fault : {"save", "link"}) {
    MetricJob job(folder, {5, 1, 3, 4});
    const auto link = folder.path() / "snapshot_best";
    const extensions::BestSnapshot* saved = nullptr;
    job.trainer->extend("faults", MetricJob::kEach, [&](Trainer& trainer) {
      trainer.checkpointer().finish();
      const bool begins = trainer.iteration() == 2, ends = trainer.iteration() == 3;
      if (ends) {
        EXPECT_EQ(saved->state().at("iteration"), fault == "save" ? 1 : 2) << "as a checkpoint says it";
      }
      if (world()->rank() != 0) return;
      if (fault == "save" && begins) test::fail_call(folder.path(), 0, test::CallFault::kError, EIO, true);
      if (fault == "save" && ends) test::stop_failing();
      if (fault == "link" && (begins || ends)) std::filesystem::remove(link);
      if (fault == "link" && begins) std::filesystem::create_directory(link);  // of another program
    });
    saved = &job.add<extensions::BestSnapshot>(Monitor(*job.log, "metric", Better::kLower));
    EXPECT_EQ(job.trainer->run(), 0);
    EXPECT_EQ(best(), fault == "save" ? "step-00000003" : "step-00000002");
    world()->barrier();
    if (world()->rank() == 0) std::filesystem::remove_all(folder.path() / "ckpt");
    world()->barrier();
  }
}

/// Not that of reports which the training that goes on from an earlier checkpoint has not had.
TEST(BestSnapshotTest, IsThatOfTheTrainingThatGoesOn) {
  const TestFolder folder(world());
  const auto best = [&] { return std::filesystem::read_symlink(folder.path() / "snapshot_best").filename().string(); };
  MetricJob job(folder, {3, 1, 2, 0, 2});
  job.add<extensions::BestSnapshot>(Monitor(*job.log, "metric", Better::kLower), std::size_t{9});
  job.add<extensions::Snapshot>(std::size_t{9});
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_EQ(best(), "step-00000004");
  world()->barrier();
  MetricJob next(folder, {3, 1, 2, 5, 5, 5});
  next.add<extensions::BestSnapshot>(Monitor(*next.log, "metric", Better::kLower), std::size_t{1});
  next.add<extensions::Snapshot>(std::size_t{1});
  EXPECT_TRUE(next.trainer->resume(checkpoint_path(folder.path(), 3).string()));
  EXPECT_EQ(next.trainer->run(), 0);
  EXPECT_EQ(best(), "step-00000002");
  EXPECT_THAT(find_checkpoints(folder.path()),
              ElementsAre(checkpoint_path(folder.path(), 6), checkpoint_path(folder.path(), 2)));
}

}  // namespace
}  // namespace mn
