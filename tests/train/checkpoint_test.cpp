// Training that saves checkpoints and resumes from them.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/checkpoint_reader.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::HasSubstr;
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

TEST(ResumeAcrossTest, NewRandomNumbersDifferBetweenRanksAndAreReproducible_from_2_ranks) {
  const TestFolder folder(world());
  const auto alone = world()->split(world()->rank() == 0 ? 0 : -1, 0);
  const ToyOptions options = {.noise = true, .trainer = {.iterations = 3, .out = folder.path()}};
  if (alone) ToyJob(alone, options).trainer->save(checkpoint_path(folder.path(), 0));
  world()->barrier();
  std::vector<std::string> drawn[2];
  for (auto& numbers : drawn) {
    ToyJob job(world(), options);
    EXPECT_TRUE(job.trainer->resume("auto"));
    numbers = world()->allgather_obj(std::to_string(torch::rand({1}, torch::kDouble).item<double>()));
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_EQ(std::set(drawn[0].begin(), drawn[0].end()).size(), drawn[0].size());
}

/// Trains `model` with a checkpoint of each iteration.
std::unique_ptr<Trainer> trainer_of(const std::shared_ptr<toy::ToyNet>& model, ComputeLoss loss,
                                    std::unique_ptr<torch::optim::Optimizer> optimizer,
                                    const std::filesystem::path& out) {
  auto trainer = std::make_unique<Trainer>(world(), create_multi_node_optimizer(std::move(optimizer), world()),
                                           std::make_shared<toy::ToyIterator>(50, 4, *world()), model, std::move(loss),
                                           TrainerOptions{.iterations = 6, .out = out});
  trainer->extend(std::make_unique<extensions::Snapshot>(6), {.trigger = Interval(1, "iteration")});
  return trainer;
}

/// A loss may change a momentum encoder, whose parameters no optimizer trains, and an embedding with max_norm.
TEST(ChangingLossTest, ASaveHoldsWhatParametersWereBeforeTheNextLossChangesThem) {
  const TestFolder folder(world());
  torch::manual_seed(5);
  const auto model = std::make_shared<toy::ToyNet>(false);
  const at::Tensor key = model->register_parameter("key", torch::zeros({1 << 22}), /*requires_grad=*/false);
  const auto table =
      model->register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(1 << 18, 3).max_norm(0.5)));
  const auto loss = [&](const Batch& batch, Summary&) {
    key.data().add_(1);
    const at::Tensor rows = table->forward(torch::arange(3));  // max_norm changes these: the same on all ranks
    const at::Tensor scores = model->forward(batch.data) + rows.index_select(0, batch.target);
    return torch::nn::functional::cross_entropy(scores, batch.target);
  };
  const auto trainer =
      trainer_of(model, loss, std::make_unique<torch::optim::SGD>(model->parameters(), 0.1), folder.path());
  EXPECT_EQ(trainer->run(), 0);
  EXPECT_EQ(find_checkpoints(folder.path()).size(), 6U) << "a save has failed";
  for (const auto& path : find_checkpoints(folder.path())) {
    const auto reader = CheckpointReader::open(*world(), path.string(), folder.path());
    at::Tensor saved = torch::empty_like(key);
    reader->read("model/", {{"key", saved}});
    EXPECT_TRUE(saved.equal(torch::full_like(key, *checkpoint_iteration(path)))) << path;
  }
}

/// Masks, and what a program begins with.
TEST(DivergenceTest, OnlyWhatTrainsAndWasFiniteDiverges) {
  const TestFolder folder(world());
  const auto model = std::make_shared<toy::ToyNet>(false);
  model->register_parameter("mask", torch::full({5}, -INFINITY), /*requires_grad=*/false);
  model->register_parameter("bound", torch::full({5}, INFINITY));
  model->register_buffer("unset", torch::full({2}, NAN));
  const auto loss = [&](const Batch& batch, Summary&) {
    return torch::nn::functional::cross_entropy(model->forward(batch.data), batch.target);
  };
  const auto trainer =
      trainer_of(model, loss, std::make_unique<torch::optim::SGD>(model->parameters(), 0.1), folder.path());
  EXPECT_EQ(trainer->run(), 0);
  EXPECT_EQ(find_checkpoints(folder.path()).size(), 6U);
  model->second->bias.detach()[1] = INFINITY;
  EXPECT_THAT(toy::message_of([&] { trainer->save(folder.path() / "c"); }), HasSubstr("second.bias holds NaN or inf"));
}

/// An optimizer without a save() of its own.
TEST(UnsavedStateTest, IsToldOnce) {
  struct Forgetful : torch::optim::Optimizer {
    explicit Forgetful(std::vector<at::Tensor> parameters)
        : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))},
                    std::make_unique<torch::optim::SGDOptions>(0.1)) {}
    at::Tensor step(LossClosure /*closure*/) override { return {}; }
  };
  const TestFolder folder(world());
  const auto model = std::make_shared<toy::ToyNet>(false);
  const auto loss = [&](const Batch& batch, Summary&) { return model->forward(batch.data).sum(); };
  const auto trainer = trainer_of(model, loss, std::make_unique<Forgetful>(model->parameters()), folder.path());
  (void)take_warnings();
  EXPECT_EQ(trainer->run(), 0);
  const auto told = take_warnings();
  const auto is_meant = [](const std::string& text) { return text.find("Forgetful") != std::string::npos; };
  EXPECT_EQ(std::ranges::count_if(told, is_meant), world()->rank() == 0 ? 1 : 0);
  trainer->save(folder.path() / "again");
  EXPECT_TRUE(take_warnings().empty());
}

}  // namespace
}  // namespace mn
