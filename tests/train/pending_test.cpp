// Extensions that take long: checkpoints before them, signals within them, and what a resume makes up for.
#include <chrono>
#include <csignal>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/json.hpp>
#include <mn/loader/function_iterator.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/trainer/extensions/early_stopping.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/run_record.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/extensions/validation.hpp>

#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using toy::ToyJob;
using toy::world;

constexpr const char* kLoss = "validation/main/loss";

/// A training with validations in which ranks have different numbers of minibatches.
struct ValidatedJob : ToyJob {
  using InMinibatch = std::function<void(Trainer&, std::int64_t number)>;

  ValidatedJob(const toy::ToyOptions& options, InMinibatch in_minibatch = {}) : ToyJob(world(), options) {
    const auto make = [](std::int64_t, std::int64_t step) {
      return Batch{torch::sin(torch::arange(12, torch::kFloat).view({2, 6}) * (step + 1)),
                   torch::full({2}, step % 3, torch::kLong), 2};
    };
    const auto evaluate = [this, in_minibatch, number = std::int64_t{0}](const Batch& batch, Summary& report) mutable {
      if (in_minibatch) in_minibatch(*trainer, number++);
      report.add("loss", torch::nn::functional::cross_entropy(model->forward(batch.data), batch.target), batch.samples);
    };
    trainer->extend(std::make_unique<extensions::Validation>(create_multi_node_evaluator(
        create_evaluator(create_iterator(4 + 3 * world()->rank(), make), model, evaluate), world())));
    log = &trainer->extend(std::make_unique<extensions::LogReport>());
    const extensions::Monitor monitor(*log, kLoss, extensions::Better::kLower);
    trainer->extend(std::make_unique<extensions::EarlyStopping>(monitor, 100));
    trainer->extend(std::make_unique<extensions::BestSnapshot>(monitor));
    trainer->extend(std::make_unique<extensions::LearningRate>(
        [](std::int64_t iteration) { return 0.01 / static_cast<double>(iteration + 1); }));
    trainer->extend(std::make_unique<extensions::Snapshot>());
  }

  /// What does not depend on time.
  [[nodiscard]] std::string report() const {
    const WholeParameters whole(*model);
    std::string text;
    for (const nlohmann::json& entry : log->entries()) {
      for (const char* name : {"iteration", "lr", "main/loss", "main/accuracy", kLoss})
        text += entry.at(name).dump() + " ";
    }
    return text + toy::bytes_of({weights()});
  }

  extensions::LogReport* log;
};

class PendingTest : public toy::CheckpointTest {
 protected:
  void SetUp() override {
    options_.fused = true;
    options_.trainer = {.epochs = 4, .out = folder_.path() / "whole", .checkpoint_on_signal = true};
    ValidatedJob whole(options_);
    EXPECT_EQ(whole.trainer->run(), 0);
    undisturbed_ = whole.report();
    best_ = best();
    options_.trainer.out = folder_.path() / "out";
  }
  void expect_an_end_in_each_validation();
  std::string best() const { return std::filesystem::read_symlink(options_.trainer.out / "snapshot_best").string(); }
  void expect_the_same_after(const std::string& from) {
    ValidatedJob next(options_);
    EXPECT_TRUE(next.trainer->resume(from));
    EXPECT_EQ(next.trainer->run(), 0);
    EXPECT_EQ(next.report(), undisturbed_);
  }

  std::string undisturbed_, best_;
};

/// Signals before the first minibatch, in the middle, and in the last validation of all.
void PendingTest::expect_an_end_in_each_validation() {
  for (const std::int64_t signaled : {0, 1, 5, 13}) {
    std::int64_t seen = 0;
    ValidatedJob job(options_, [&](Trainer&, std::int64_t number) {
      seen = number;
      if (number >= signaled) std::this_thread::sleep_for(std::chrono::milliseconds(60));
      if (number == signaled && world()->rank() == 0) std::raise(SIGTERM);
    });
    EXPECT_EQ(job.trainer->run(), kExitRequeue);
    EXPECT_TRUE(world()->rank() != 0 || seen <= signaled + 1) << seen;
    const std::int64_t iteration = job.trainer->iteration();
    EXPECT_TRUE(toy::same_on_all(std::to_string(iteration)));
    EXPECT_TRUE(is_committed(checkpoint_path(options_.trainer.out, iteration)));
    EXPECT_EQ(job.log->entries().size(), static_cast<std::size_t>(job.trainer->epoch() - 1)) << "no partial report";
    job.trainer.reset();
    expect_the_same_after("auto");
    EXPECT_EQ(best(), best_);
    world()->barrier();  // all have read the link
    toy::on_rank_zero([&] { std::filesystem::remove_all(options_.trainer.out); });
  }
}

TEST_F(PendingTest, ASignalInAValidationEndsItOnAllRanks) { expect_an_end_in_each_validation(); }

/// A rank without further minibatches waits for the others' signals while they gather parameters.
TEST_F(PendingTest, ASignalInAValidationOfAShardedModelEndsItOnAllRanks) {
  options_.optimizer.shard = {.what = Shard::kParameters, .unit_bytes = 0};
  expect_an_end_in_each_validation();
}

/// Nothing is written in place of the checkpoint that training resumed from.
TEST_F(PendingTest, ASecondSignalLeavesThePinnedCheckpoint) {
  for (const char* from : {"", "auto"}) {
    ValidatedJob job(options_, [&](Trainer&, std::int64_t number) {
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      if (number == 1 && world()->rank() == 0) std::raise(SIGTERM);
    });
    const std::string source = from;
    EXPECT_TRUE(source.empty() || job.trainer->resume(source));
    EXPECT_EQ(job.trainer->run(), kExitRequeue);
    const auto path = checkpoint_path(options_.trainer.out, job.trainer->iteration());
    EXPECT_THAT(find_checkpoints(options_.trainer.out), testing::ElementsAre(path));
    toy::on_rank_zero([&] { write_file(path / kPinName, ""); });
  }
  expect_the_same_after("auto");
}

/// So a kill in the validation loses nothing.
TEST_F(PendingTest, TheCheckpointIsThereBeforeTheValidationEnds) {
  std::vector<bool> there;
  ValidatedJob job(options_, [&](Trainer& trainer, std::int64_t) {
    there.push_back(is_committed(checkpoint_path(trainer.out(), trainer.iteration())));
  });
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_THAT(there, testing::Contains(true));
  EXPECT_EQ(job.report(), undisturbed_);
  job.trainer.reset();
  const auto paths = find_checkpoints(options_.trainer.out);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    options_.trainer.out = folder_.path() / ("from" + std::to_string(i));
    expect_the_same_after(paths[i].string());
  }
}

/// The log has the checkpoint's report, which no reader has seen.
TEST_F(PendingTest, AReportBeforeWhatTakesLongIsReadAfterAResume) {
  options_.trainer = {.epochs = 2, .out = folder_.path() / "readers"};
  std::vector<std::string> records;
  for (const std::string from : {"", "auto"}) {
    ToyJob job(world(), options_);
    const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>());
    const extensions::Monitor monitor(log, "main/loss", extensions::Better::kLower);
    job.trainer->extend("long", {1, "epoch"}, [](Trainer&) {});
    job.trainer->extend(std::make_unique<extensions::RunRecord>(log));
    const auto& best = job.trainer->extend(std::make_unique<extensions::BestSnapshot>(monitor));
    job.trainer->extend(std::make_unique<extensions::Snapshot>());
    EXPECT_TRUE(from.empty() || job.trainer->resume(from));
    EXPECT_EQ(job.trainer->run(), 0);
    EXPECT_EQ(best.state().at("iteration"), job.trainer->iteration()) << "the loss falls";
    std::string lines = read_file(options_.trainer.out / "run.jsonl");
    records.push_back(lines.substr(lines.rfind("\"start\"")));
  }
  EXPECT_THAT(records[1], testing::HasSubstr("\"report\""));
}

/// A function that rank 0 alone keeps busy, such as ChainerMN's validation there.
TEST_F(PendingTest, WhatAFunctionDoesBesideIsSavedBefore) {
  options_.trainer.out = folder_.path() / "function";
  std::vector<std::int64_t> ran;
  const auto make = [&] {
    auto job = std::make_unique<ToyJob>(world(), options_);
    job->trainer->extend(std::make_unique<extensions::Snapshot>());
    job->trainer->extend("own", {2, "epoch"}, [&](Trainer& trainer) {
      EXPECT_TRUE(is_committed(checkpoint_path(trainer.out(), trainer.iteration())));
      ran.push_back(trainer.epoch());
    });
    return job;
  };
  EXPECT_EQ(make()->trainer->run(), 0);
  EXPECT_THAT(ran, testing::ElementsAre(2, 4));
  const auto next = make();
  EXPECT_TRUE(next->trainer->resume("auto"));
  EXPECT_EQ(next->trainer->run(), 0);
  EXPECT_THAT(ran, testing::ElementsAre(2, 4, 4)) << "its checkpoint says that it was still to run";
}

/// What was begun when a signal came, but not what takes long after it.
TEST_F(PendingTest, NothingLongBeginsAfterASignal) {
  options_.trainer.out = folder_.path() / "signal";
  bool ran = false;
  ToyJob job(world(), options_);
  job.trainer->extend("signal", {1, "iteration"}, [](Trainer& trainer) {
    std::this_thread::sleep_for(std::chrono::milliseconds(110));  // the ranks agree after each
    if (trainer.iteration() == trainer.iterations_per_epoch() - 1) std::raise(SIGUSR1);
  });
  job.trainer->extend("long", {1, "epoch"}, [&](Trainer&) { ran = true; });
  EXPECT_EQ(job.trainer->run(), kExitRequeue);
  EXPECT_FALSE(ran);
  EXPECT_TRUE(is_committed(checkpoint_path(options_.trainer.out, job.trainer->iteration())));
}

/// Says when it was called.
class Caller final : public Extension {
 public:
  Caller(int priority, std::vector<std::string>& calls) : priority_(priority), calls_(calls) {}
  std::string name() const override { return "caller" + std::to_string(priority_); }
  Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  int priority() const override { return priority_; }
  void run(Trainer& trainer) override { calls_.push_back("run " + std::to_string(trainer.epoch())); }
  void at_end(Trainer& trainer) override { calls_.push_back("end " + std::to_string(trainer.epoch())); }

 private:
  int priority_;
  std::vector<std::string>& calls_;
};

/// What has run in the last iteration has no end there, nor has what is to run: also not after a resume.
TEST_F(PendingTest, WhatRunsInTheLastIterationHasNoEnd) {
  options_.trainer = {.epochs = 2, .out = folder_.path() / "end"};
  for (const bool resumes : {false, true}) {
    std::vector<std::string> writer, last, function;
    ToyJob job(world(), options_);
    job.trainer->extend(std::make_unique<extensions::Snapshot>());
    EXPECT_TRUE(!resumes || job.trainer->resume("auto"));
    job.trainer->extend(std::make_unique<Caller>(kPriorityWriter, writer));  // also of those that come after resume()
    job.trainer->extend("long", {1, "epoch"},
                        [&](Trainer& trainer) { function.push_back("run " + std::to_string(trainer.epoch())); });
    job.trainer->extend(std::make_unique<Caller>(kPriorityReport, last));
    EXPECT_EQ(job.trainer->run(), 0);
    using Calls = std::vector<std::string>;
    EXPECT_EQ(writer, resumes ? Calls{} : (Calls{"run 1", "run 2"}));
    for (const Calls& calls : {last, function}) EXPECT_EQ(calls, resumes ? Calls{"run 2"} : (Calls{"run 1", "run 2"}));
  }
}

}  // namespace
}  // namespace mn
