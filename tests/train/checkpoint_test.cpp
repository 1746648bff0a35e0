// Training that saves checkpoints and resumes from them.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/checkpoint_reader.hpp>
#include <mn/checkpoint/format/checkpoint_file.hpp>
#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/format/checkpoint_info.hpp>
#include <mn/checkpoint/optimizer_archive.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/support/failing_calls.hpp"
#include "tests/train/checkpoint_helpers.hpp"
#include "tests/train/earlier_file.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using toy::message_of;
using toy::on_rank_zero;
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

class AutoTest : public testing::Test {
 protected:
  TestFolder folder_{world()};
  ToyOptions options_ = {.trainer = {.iterations = 9, .out = folder_.path()}};

  std::string resume_message(const std::string& from, ToyOptions options) {
    return message_of([&] { ToyJob(world(), options).trainer->resume(from); });
  }
};

TEST_F(AutoTest, WithoutACheckpointTrainingStartsAtTheBeginning) {
  ToyJob job(world(), options_);
  EXPECT_FALSE(job.trainer->resume("auto"));
  EXPECT_EQ(job.trainer->iteration(), 0);
}

TEST_F(AutoTest, ADamagedNewestFallsBackToTheOneBefore) {
  ToyJob job(world(), options_);
  for (int i = 1; i <= 3; ++i) {
    job.trainer->extend("save" + std::to_string(i), {3.0 * i, "iteration"}, [&, i](Trainer& trainer) {
      if (trainer.iteration() == 3 * i) trainer.save(checkpoint_path(folder_.path(), 3 * i));
    });
  }
  EXPECT_EQ(job.trainer->run(), 0);
  if (world()->rank() == 0) {
    const auto shard = checkpoint_path(folder_.path(), 9) / shard_name(0, world()->size());
    std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 5);
  }
  world()->barrier();
  ToyJob next(world(), options_);
  EXPECT_TRUE(next.trainer->resume("auto"));
  EXPECT_EQ(next.trainer->iteration(), 6);
  EXPECT_THAT(resume_message(checkpoint_path(folder_.path(), 9).string(), options_), HasSubstr("step-00000009"));
}

TEST_F(AutoTest, AMismatchIsTheSameErrorOnAllRanks) {
  const std::string path = checkpoint_path(folder_.path(), 0).string();
  ToyJob(world(), options_).trainer->save(path);

  ToyOptions other_optimizer = options_;
  other_optimizer.sgd = true;
  EXPECT_THAT(resume_message(path, other_optimizer), HasSubstr("this job SGD"));
  ToyOptions other_model = options_;
  other_model.noise = true;
  EXPECT_THAT(resume_message(path, other_model), HasSubstr("running_mean"));
  EXPECT_THAT(resume_message(path + "0", options_), HasSubstr("there is no checkpoint"));
  EXPECT_THAT(resume_message(folder_.path().string(), options_), HasSubstr("there is no checkpoint"));
  if (world()->rank() == 0) write_file(folder_.path() / "other", std::string(100, 'x'));
  EXPECT_THAT(resume_message((folder_.path() / "other").string(), options_), HasSubstr("not a checkpoint"));
}

TEST_F(AutoTest, FusedAdamResumesTorchsAdamAlsoByItsOldName) {
  ToyJob job(world(), options_);
  EXPECT_EQ(job.trainer->run(), 0);
  const std::string path = (folder_.path() / "adam").string();
  job.trainer->save(path);
  job.trainer->save(path + "_old");
  toy::edit_checkpoint(path + "_old", [](json& about) {
    EXPECT_EQ(about["optimizers"]["main"]["kind"], "Adam");
    about["optimizers"]["main"]["kind"] = "torch::optim::Adam";
  });
  ToyOptions longer = options_;
  longer.trainer.iterations += 3;
  const auto resumed = [&](const std::string& from, bool fused) {
    longer.fused = fused;
    ToyJob next(world(), longer);
    EXPECT_TRUE(next.trainer->resume(from));
    EXPECT_EQ(next.trainer->run(), 0);
    return next.weights();
  };
  const at::Tensor expected = resumed(path, false);
  EXPECT_TRUE(torch::allclose(resumed(path, true), expected, 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(resumed(path + "_old", true), expected, 1e-5, 1e-6));
}

TEST_F(AutoTest, OnlyTheNewestAreKept) {
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Snapshot>(2), {.trigger = Interval(2, "iteration")});
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_THAT(find_checkpoints(folder_.path()),
              ElementsAre(checkpoint_path(folder_.path(), 9), checkpoint_path(folder_.path(), 8)));
  EXPECT_THROW(extensions::Snapshot(0), UsageError);
}

/// A new run in the folder of one that came further: what it writes is the newest, and nothing is deleted.
TEST_F(AutoTest, CheckpointsOfAnotherRunAreSetAside) {
  if (world()->rank() == 0) {
    for (const int iteration : {5, 100, 200, 300}) {
      const auto path = checkpoint_path(folder_.path(), iteration);
      std::filesystem::create_directories(path);
      write_file(path / kManifestName, "of another");
    }
  }
  world()->barrier();
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Snapshot>(2), {.trigger = Interval(4, "iteration")});
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_THAT(find_checkpoints(folder_.path()),
              ElementsAre(checkpoint_path(folder_.path(), 9), checkpoint_path(folder_.path(), 8)));
  for (const int iteration : {100, 200, 300}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / "ckpt" / ("old_step-00000" + std::to_string(iteration))));
  }
  ToyJob next(world(), options_);
  EXPECT_TRUE(next.trainer->resume("auto"));
  EXPECT_EQ(next.trainer->iteration(), 9);
}

/// Whatever ends the training.
TEST_F(AutoTest, TheEndIsSavedOnce) {
  options_.trainer.iterations = 4;
  std::filesystem::file_time_type written;
  for (const int every : {3, 4}) {
    ToyJob job(world(), options_);
    job.trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(every, "iteration")});
    EXPECT_EQ(job.trainer->resume("auto"), every == 4);
    EXPECT_EQ(job.trainer->run(), 0);
    const auto path = checkpoint_path(folder_.path(), 4) / kManifestName;
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_TRUE(every == 3 || std::filesystem::last_write_time(path) == written) << "written anew";
    written = std::filesystem::last_write_time(path);
  }
}

/// What earlier versions wrote: libtorch's archives, and a section for each rank.
TEST_F(AutoTest, AFileOfAnEarlierVersionResumes) {
  ToyOptions options = {.noise = true, .trainer = {.iterations = 5, .out = folder_.path()}};
  ToyJob first(world(), options);
  EXPECT_EQ(first.trainer->run(), 0);
  first.trainer->save(folder_.path() / "new");
  const auto reader = CheckpointReader::open(*world(), (folder_.path() / "new").string(), "");
  const std::vector<std::string> sections = world()->gather_obj(to_safetensors(reader->own()));
  on_rank_zero([&] {
    const std::string archive = optimizer_bytes(first.trainer->optimizer().actual());
    const at::Tensor bytes =
        torch::from_blob(const_cast<char*>(archive.data()), {static_cast<std::int64_t>(archive.size())}, torch::kByte);
    std::vector<std::pair<std::string, std::string>> all = {{"model", to_safetensors(named_tensors(*first.model))},
                                                            {"optimizer", to_safetensors({{"main", bytes}})},
                                                            {"extensions", to_safetensors({})}};
    for (std::size_t i = 0; i < sections.size(); ++i) all.emplace_back("rank." + std::to_string(i), sections[i]);
    json about = reader->about();
    about["optimizers"]["main"].erase("groups");
    write_file(folder_.path() / "snapshot_iter_5", test::earlier_checkpoint(about, all));
  });
  options.trainer.iterations = 9;
  const auto go_on = [&](const std::string& from) {
    ToyJob next(world(), options);
    EXPECT_TRUE(next.trainer->resume(from));
    EXPECT_EQ(next.trainer->run(), 0);
    return next.weights();
  };
  EXPECT_TRUE(go_on("auto").equal(go_on((folder_.path() / "new").string())));
}

/// Every save fails from the second on, at the last rank's shard; training goes on, with the result that it has alone.
TEST_F(AutoTest, TrainingGoesOnWhereASaveFails) {
  options_.trainer.iterations = 12;
  const auto train = [&](bool fails) {
    ToyJob job(world(), options_);
    job.trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(2, "iteration")});
    job.trainer->extend("faults", {1, "iteration"}, [&](Trainer& trainer) {
      if (!fails || world()->rank() != world()->size() - 1) return;
      if (trainer.iteration() == 3) test::fail_call(folder_.path(), 0, test::CallFault::kError, ENOSPC, true);
      if (trainer.iteration() == 10) test::stop_failing();
    });
    EXPECT_EQ(job.trainer->run(), 0);
    return job.weights();
  };
  const at::Tensor undisturbed = train(false);
  on_rank_zero([&] { std::filesystem::remove_all(folder_.path() / "ckpt"); });
  EXPECT_TRUE(train(true).equal(undisturbed));
  EXPECT_FALSE(find_checkpoints(folder_.path()).empty());
  ToyJob next(world(), options_);
  EXPECT_TRUE(next.trainer->resume("auto"));
  EXPECT_EQ(next.trainer->iteration(), 12);
}

/// The same layers, registered in another order: each parameter gets its own momenta.
TEST_F(AutoTest, OptimizerStateFollowsNames) {
  struct Net : torch::nn::Module {
    explicit Net(bool turned) {
      const auto add = [&](const char* name) { register_module(name, torch::nn::Linear(4, 4)); };
      for (const char* name : turned ? std::array{"b", "a"} : std::array{"a", "b"}) add(name);
    }
  };
  const auto trainer_of = [&](const std::shared_ptr<Net>& net) {
    const auto loss = [net](const Batch&, Summary&) {
      at::Tensor sum = torch::zeros({});
      for (const auto& item : net->named_parameters()) {
        sum = sum + item.value().pow(2).sum() * (item.key().starts_with('a') ? 1 : 3);
      }
      return sum;
    };
    return std::make_unique<Trainer>(
        world(),
        create_multi_node_optimizer(
            std::make_unique<torch::optim::Adam>(net->parameters(), torch::optim::AdamOptions(0.01)), world()),
        std::make_shared<toy::ToyIterator>(50, 4, *world()), net, loss,
        TrainerOptions{.iterations = 3, .out = folder_.path()});
  };
  const auto straight = std::make_shared<Net>(false), turned = std::make_shared<Net>(true);
  const auto first = trainer_of(straight), second = trainer_of(turned);
  EXPECT_EQ(first->run(), 0);
  first->save(folder_.path() / "c");
  EXPECT_TRUE(second->resume((folder_.path() / "c").string()));
  for (const auto& item : straight->named_parameters()) {
    const at::Tensor there = turned->named_parameters()[item.key()];
    EXPECT_TRUE(there.equal(item.value())) << item.key();
    const auto moment = [](Trainer& trainer, const at::Tensor& parameter) {
      auto& state = *trainer.optimizer().actual().state().at(parameter.unsafeGetTensorImpl());
      return static_cast<torch::optim::AdamParamState&>(state).exp_avg();
    };
    EXPECT_TRUE(moment(*second, there).equal(moment(*first, item.value()))) << item.key();
  }
}

}  // namespace
}  // namespace mn
