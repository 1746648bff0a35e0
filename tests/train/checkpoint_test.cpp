// Checkpoint files, and training that resumes from them.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/checkpoint.hpp>
#include <mn/checkpoint/checkpoint_file.hpp>
#include <mn/checkpoint/checkpoint_folder.hpp>
#include <mn/checkpoint/checkpoint_info.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/support/resident_bytes.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using toy::TestFolder;
using toy::ToyJob;
using toy::ToyOptions;
using toy::world;

const std::vector<std::pair<std::string, std::string>> kSections = {{"model", std::string(1000, 'm')},
                                                                    {"optimizer", std::string("opt\0imizer", 10)},
                                                                    {"extensions", "extensions"},
                                                                    {"rank.0", "rank zero"},
                                                                    {"rank.1", ""},
                                                                    {"rank.2", "rank two"}};

void write_example(const std::filesystem::path& path) {
  std::vector<CheckpointSection> sections;
  for (const auto& [name, content] : kSections) sections.push_back(describe_section(name, content));
  CheckpointWriter file(path, {{"iteration", 12}}, sections);
  for (const auto& [name, content] : kSections) file.write(content);
  file.commit();
}

/// Runs `body` on rank 0 alone; what it checks is local.
template <class F>
void on_rank_zero(F body) {
  if (world()->rank() == 0) body();
  world()->barrier();
}

/// Without write_file()'s care for power failures, which takes its time.
void put(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no DataError";
}

TEST(CheckpointFileTest, ReadsWhatWasWritten) {
  const TestFolder folder(world());
  on_rank_zero([&] {
    write_example(folder.path() / "c");
    const CheckpointFile read(folder.path() / "c");
    EXPECT_EQ(read.about(), json({{"iteration", 12}}));
    EXPECT_EQ(read.ranks(), 3);
    for (const auto& [name, content] : kSections) EXPECT_EQ(read.read(name), content);
    read.check();
  });
}

TEST(CheckpointFileTest, EveryDamagedByteIsFoundAndTheFileNamed) {
  const TestFolder folder(world());
  on_rank_zero([&] {
    const auto path = folder.path() / "c";
    write_example(path);
    const std::string whole = read_file(path);
    for (std::size_t i = 0; i < whole.size(); i += i < 300 ? 1 : 37) {
      std::string broken = whole;
      broken[i] = static_cast<char>(broken[i] ^ 0x20);
      put(path, broken);
      EXPECT_THAT(message_of([&] { CheckpointFile(path).check(); }), HasSubstr(path.string())) << i;
    }
    for (std::size_t length = 0; length < whole.size(); length += 13) {
      put(path, whole.substr(0, length));
      EXPECT_THAT(message_of([&] { CheckpointFile(path).check(); }), HasSubstr("damaged")) << length;
    }
    put(path, whole + "x");
    EXPECT_THAT(message_of([&] { CheckpointFile(path).check(); }), HasSubstr("follow its end"));
  });
}

TEST(CheckpointTest, EachRankGetsItsOwnSectionAndRankZeroHoldsOneAtATime) {
  constexpr std::int64_t kBytes = 48 << 20;
  const TestFolder folder(world());
  const int rank = world()->rank();
  const auto path = folder.path() / "c";
  {
    Checkpoint checkpoint;
    checkpoint.about = {{"iteration", 3}};
    checkpoint.model = "model";
    checkpoint.own.assign(kBytes + rank, static_cast<char>('a' + rank));
    world()->barrier();
    const std::int64_t before = test::resident_bytes();
    const bool can_measure = test::reset_peak_bytes();
    save_checkpoint(*world(), path, checkpoint);
    if (can_measure && rank == 0) {
      EXPECT_LE(test::peak_bytes() - before, 2 * kBytes) << "beside its own section";
    }
  }
  const std::int64_t before = test::resident_bytes();
  const bool can_measure = test::reset_peak_bytes();
  const auto read = load_checkpoint(*world(), path.string(), folder.path());
  if (can_measure) {
    EXPECT_LE(test::peak_bytes() - before, 3 * kBytes);
  }
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->about, json({{"iteration", 3}}));
  EXPECT_EQ(read->model, "model");
  EXPECT_EQ(read->ranks, world()->size());
  EXPECT_TRUE(read->own == std::string(kBytes + rank, static_cast<char>('a' + rank)));
}

TEST(CheckpointTest, AFileThatCannotBeWrittenIsTheSameErrorOnEveryRank) {
  const TestFolder folder(world());
  const auto path = folder.path() / "absent" / "c";
  Checkpoint checkpoint;
  checkpoint.own.assign(1 << 20, 'x');  // too long to be sent before it is received
  EXPECT_THAT(message_of([&] { save_checkpoint(*world(), path, checkpoint); }), HasSubstr("absent"));
  save_checkpoint(*world(), folder.path() / "c", checkpoint);
}

TEST(CheckpointFileTest, OldOnesAreFoundByIterationAndRemoved) {
  const TestFolder folder(world());
  on_rank_zero([&] {
    const auto now = std::filesystem::file_time_type::clock::now();
    // In the order in which a copy may write them.
    const std::pair<int, int> ages[] = {{200, 30}, {100, 20}, {7, 10}};
    for (const auto& [iteration, age] : ages) {
      write_example(checkpoint_path(folder.path(), iteration));
      std::filesystem::last_write_time(checkpoint_path(folder.path(), iteration), now - std::chrono::seconds(age));
    }
    write_file(folder.path() / "snapshot_iter_9.bak", "another file");
    EXPECT_THAT(find_checkpoints(folder.path()),
                ElementsAre(checkpoint_path(folder.path(), 200), checkpoint_path(folder.path(), 100),
                            checkpoint_path(folder.path(), 7)));
    const auto unfinished = folder.path() / ".snapshot_iter_300.other-host.1.0.tmp";
    write_file(unfinished, "half a checkpoint");
    std::filesystem::last_write_time(unfinished, now - std::chrono::hours(2));
    remove_old_checkpoints(folder.path(), 2);
    EXPECT_FALSE(std::filesystem::exists(unfinished));
    EXPECT_THAT(find_checkpoints(folder.path()),
                ElementsAre(checkpoint_path(folder.path(), 200), checkpoint_path(folder.path(), 100)));
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "snapshot_iter_9.bak"));
    EXPECT_THAT(find_checkpoints(folder.path() / "absent"), ElementsAre());
  });
}

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
  const Result parts = train(world(), options, 33, (options.trainer.out / "snapshot_iter_14").string());
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
    const Result one = train(alone, options, 20, (options.trainer.out / "snapshot_iter_7").string());
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
  if (alone) ToyJob(alone, options).trainer->save(folder.path() / "snapshot_iter_0");
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
    const auto newest = checkpoint_path(folder_.path(), 9);
    const auto time = std::filesystem::last_write_time(newest);
    std::filesystem::resize_file(newest, std::filesystem::file_size(newest) - 5);
    std::filesystem::last_write_time(newest, time);
  }
  world()->barrier();
  ToyJob next(world(), options_);
  EXPECT_TRUE(next.trainer->resume("auto"));
  EXPECT_EQ(next.trainer->iteration(), 6);
  EXPECT_THAT(resume_message(checkpoint_path(folder_.path(), 9).string(), options_), HasSubstr("snapshot_iter_9"));
}

TEST_F(AutoTest, AMismatchIsTheSameErrorOnAllRanks) {
  const std::string path = (folder_.path() / "snapshot_iter_0").string();
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
  auto checkpoint = load_checkpoint(*world(), path, folder_.path());
  EXPECT_EQ(checkpoint->about["optimizers"]["main"]["kind"], "Adam");
  checkpoint->about["optimizers"]["main"]["kind"] = "torch::optim::Adam";
  save_checkpoint(*world(), path + "_old", *checkpoint);
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
    for (const int iteration : {5, 100, 200, 300}) write_file(checkpoint_path(folder_.path(), iteration), "of another");
  }
  world()->barrier();
  ToyJob job(world(), options_);
  job.trainer->extend(std::make_unique<extensions::Snapshot>(2), {.trigger = Interval(4, "iteration")});
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_THAT(find_checkpoints(folder_.path()),
              ElementsAre(checkpoint_path(folder_.path(), 9), checkpoint_path(folder_.path(), 8)));
  for (const int iteration : {100, 200, 300}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / ("old_snapshot_iter_" + std::to_string(iteration))));
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
    const auto path = checkpoint_path(folder_.path(), 4);
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_TRUE(every == 3 || std::filesystem::last_write_time(path) == written) << "written anew";
    written = std::filesystem::last_write_time(path);
  }
}

}  // namespace
}  // namespace mn
