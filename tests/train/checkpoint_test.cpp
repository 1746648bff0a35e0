// Training that saves checkpoints and resumes from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using nlohmann::json;
using toy::TestFolder;
using toy::ToyJob;
using toy::ToyOptions;
using toy::world;

/// Halves the learning rate every other epoch, as a schedule does.
void add_schedule(Trainer& trainer) {
  trainer.extend("schedule", {2, "epoch"}, [](Trainer& t) {
    auto& options = t.optimizer().param_groups().front().options();
    options.set_lr(options.get_lr() / 2);
  });
}

struct Result {
  at::Tensor weights;
  at::Tensor random;  // what the generator gives next
  at::Tensor running_mean;
  std::vector<json> log;
};

/// Trains up to `iterations` with a log every 5 and a checkpoint every 7 iterations, from `resume` if it's not empty.
Result train(const std::shared_ptr<Communicator>& comm, ToyOptions options, std::int64_t iterations,
             const std::string& resume = "") {
  options.trainer.iterations = iterations;
  ToyJob job(comm, options);
  auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(5, "iteration")});
  job.trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(7, "iteration")});
  add_schedule(*job.trainer);
  EXPECT_TRUE(resume.empty() || job.trainer->resume(resume));
  EXPECT_EQ(job.trainer->run(), 0);
  std::vector<json> entries = log.entries();
  for (json& entry : entries) {
    entry.erase("elapsed_time");
    entry.erase("images_per_second");
  }
  return {job.weights(), torch::rand({8}), job.model->running_mean, entries};
}

class ResumeTest : public testing::TestWithParam<bool> {};

TEST_P(ResumeTest, IsBitIdenticalToTrainingWithoutABreak) {
  const TestFolder folder(world());
  ToyOptions options = {.noise = true, .sgd = GetParam(), .trainer = {.out = folder.path() / "whole"}};
  const Result whole = train(world(), options, 33);
  options.trainer.out = folder.path() / "parts";
  train(world(), options, 9);           // a checkpoint at 7, between two reports
  train(world(), options, 24, "auto");  // 14, 21
  const Result parts = train(world(), options, 33, checkpoint_path(options.trainer.out, 14).string());
  EXPECT_TRUE(parts.weights.equal(whole.weights)) << parts.weights - whole.weights;
  EXPECT_TRUE(parts.random.equal(whole.random));
  EXPECT_TRUE(parts.running_mean.equal(whole.running_mean));
  EXPECT_EQ(parts.log, whole.log);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ResumeTest, testing::Bool(),
                         [](const auto& with) { return with.param ? "Momentum" : "Adam"; });

TEST(CheckpointInfoTest, SaysHowFarTrainingWas) {
  const TestFolder folder(world());
  ToyJob job(world(), {.size = 48 * world()->size(), .trainer = {.iterations = 18, .out = folder.path()}});
  EXPECT_EQ(job.trainer->run(), 0);
  job.trainer->save(folder.path() / "half");
  const CheckpointInfo info = read_checkpoint_info(folder.path() / "half");
  EXPECT_EQ(info.iteration, 18);
  EXPECT_EQ(info.epoch, 1);
  EXPECT_DOUBLE_EQ(info.epoch_detail, 1.5);
  EXPECT_EQ(info.ranks, world()->size());
  EXPECT_THROW((void)read_checkpoint_info(folder.path() / "absent"), Error);
}

TEST(ResumeAcrossTest, AnyNumberOfRanksContinuesTheSameTraining) {
  const TestFolder folder(world());
  const int ranks = world()->size();
  const std::int64_t global_batch = 12;  // 1, 2, 3 and 4 divide it
  const bool first = world()->rank() == 0;
  const auto alone = world()->split(first ? 0 : -1, 0);

  // All ranks, then one.
  ToyOptions options = {.batchsize = global_batch / ranks, .trainer = {.out = folder.path() / "many"}};
  const Result whole = train(world(), options, 20);
  if (first) {
    options.batchsize = global_batch;
    const Result one = train(alone, options, 20, checkpoint_path(options.trainer.out, 7).string());
    EXPECT_TRUE(torch::allclose(one.weights, whole.weights, 1e-4, 1e-5)) << one.weights - whole.weights;
    EXPECT_EQ(one.log.size(), whole.log.size());
    for (std::size_t i = 0; i < one.log.size(); ++i) {
      EXPECT_NEAR(one.log[i].at("main/loss"), whole.log[i].at("main/loss"), 1e-4) << i;
    }
  }
  world()->barrier();

  // One rank, then all.
  options.trainer.out = folder.path() / "one";
  if (first) {
    options.batchsize = global_batch;
    train(alone, options, 9);
  }
  world()->barrier();
  options.batchsize = global_batch / ranks;
  const Result many = train(world(), options, 20, "auto");
  EXPECT_TRUE(torch::allclose(many.weights, whole.weights, 1e-4, 1e-5)) << many.weights - whole.weights;
}

TEST(ResumeAcrossTest, NewRandomNumbersDifferBetweenRanksAndAreReproducible) {
  const TestFolder folder(world());
  const auto alone = world()->split(world()->rank() == 0 ? 0 : -1, 0);
  const ToyOptions options = {.noise = true, .trainer = {.iterations = 3, .out = folder.path()}};
  if (alone) ToyJob(alone, options).trainer->save(checkpoint_path(folder.path(), 0));
  world()->barrier();
  if (world()->size() == 1) return;
  std::vector<std::string> drawn[2];
  for (auto& numbers : drawn) {
    ToyJob job(world(), options);
    EXPECT_TRUE(job.trainer->resume("auto"));
    numbers = world()->allgather_obj(std::to_string(torch::rand({1}, torch::kDouble).item<double>()));
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_EQ(std::set(drawn[0].begin(), drawn[0].end()).size(), drawn[0].size());
}

}  // namespace
}  // namespace mn
