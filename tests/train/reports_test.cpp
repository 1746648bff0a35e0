// What reaches OUT/log: the values of every extension, the end of a training, and a resumed run.
#include "tests/train/reports.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/plateau.hpp>
#include <mn/trainer/extensions/plot_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/support/failing_calls.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using toy::kEach;
using toy::kNever;
using toy::read_log;
using toy::ReportsTest;
using toy::ToyJob;
using toy::ToyOptions;
using toy::values_of;
using toy::world;

/// Also of one that runs after the log.
TEST_F(ReportsTest, AnExtensionsValueIsInTheEntryOfItsIteration) {
  ToyJob job(world(), options(3));
  std::vector<double> seen;
  class Reader final : public Extension {
   public:
    Reader(const extensions::LogReport& log, std::vector<double>& seen) : log_(log), seen_(seen) {}
    std::string name() const override { return "reader"; }
    int priority() const override { return kPriorityReport; }
    void run(Trainer&) override { seen_.push_back(log_.last("late")); }

   private:
    const extensions::LogReport& log_;
    std::vector<double>& seen_;
  };
  extensions::LogReport* log = nullptr;
  const auto report = [&](const std::string& name) {
    job.trainer->extend(name, kEach,
                        [name](Trainer& each) { each.report(name, static_cast<double>(each.iteration())); });
  };
  report("early");
  auto owned = std::make_unique<extensions::LogReport>();
  log = owned.get();
  job.trainer->extend(std::make_unique<Reader>(*log, seen));
  job.trainer->extend(std::move(owned), {.trigger = kEach});
  report("late");
  EXPECT_EQ(job.trainer->run(), 0);
  for (const json& entries : {json(log->entries()), read_log(folder_.path())}) {
    EXPECT_THAT(values_of(entries, "early"), ElementsAre(1, 2, 3));
    EXPECT_THAT(values_of(entries, "late"), ElementsAre(1, 2, 3));
  }
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
}

TEST_F(ReportsTest, WhatIsLeftAtTheEndIsReportedAndValidated) {
  const auto toy = job(8);
  EXPECT_EQ(toy->trainer->run(), 0);
  EXPECT_THAT(values_of(log_->entries(), "iteration"), ElementsAre(3, 6, 8));
  EXPECT_THAT(values_of(log_->entries(), "validation/main/iteration"), ElementsAre(-1, -1, 8));
  EXPECT_THAT(values_of(read_log(folder_.path()), "validation/main/iteration"), ElementsAre(-1, -1, 8));
}

/// The log's own report is there; the validation adds to it.
TEST_F(ReportsTest, AnEndWithAReportIsValidatedToo) {
  const auto toy = job(6);
  EXPECT_EQ(toy->trainer->run(), 0);
  EXPECT_THAT(values_of(read_log(folder_.path()), "validation/main/iteration"), ElementsAre(-1, 6));
}

TEST_F(ReportsTest, AStopIsAnEnd) {
  const auto toy = job(100);
  toy->trainer->extend("stop", kEach, [](Trainer& each) {
    if (each.iteration() == 5) each.stop("enough");
  });
  EXPECT_EQ(toy->trainer->run(), 0);
  EXPECT_THAT(iterations_in_file(), ElementsAre(3, 5));
  EXPECT_EQ(log_->last("validation/main/iteration"), 5);
}

TEST_F(ReportsTest, AnInterruptionIsNoEnd) {
  ToyOptions how = options(100);
  how.trainer.checkpoint_on_signal = true;
  ToyJob toy(world(), how);
  auto& log = toy.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(3, "iteration")});
  toy.trainer->extend("kill", kEach, [](Trainer& each) {
    if (each.is_root() && each.iteration() == 4) std::raise(SIGUSR1);
  });
  EXPECT_EQ(toy.trainer->run(), kExitRequeue);
  EXPECT_THAT(values_of(log.entries(), "iteration"), testing::Each(testing::AnyOf(3, 6)));
}

/// Means, too: the part before the first end counts once.
TEST_F(ReportsTest, ALongerRunFromTheEndReportsAsOneWithoutABreak) {
  std::vector<std::vector<double>> losses;
  for (const bool broken : {false, true}) {
    if (broken) {
      const auto first = job(8);
      first->trainer->extend(std::make_unique<extensions::Snapshot>());
      EXPECT_EQ(first->trainer->run(), 0);
      EXPECT_THAT(iterations_in_file(), ElementsAre(3, 6, 8));
      const auto again = job(8);  // nothing is left to do
      EXPECT_TRUE(again->trainer->resume("auto"));
      EXPECT_EQ(again->trainer->run(), 0);
      EXPECT_THAT(iterations_in_file(), ElementsAre(3, 6, 8));
    }
    const auto toy = job(12);
    EXPECT_EQ(broken && toy->trainer->resume("auto"), broken);
    EXPECT_EQ(toy->trainer->run(), 0);
    EXPECT_THAT(iterations_in_file(), ElementsAre(3, 6, 9, 12));
    EXPECT_THAT(values_of(log_->entries(), "iteration"), ElementsAre(3, 6, 9, 12));
    EXPECT_THAT(values_of(read_log(folder_.path()), "validation/main/iteration"), ElementsAre(-1, -1, -1, 12));
    losses.push_back(values_of(read_log(folder_.path()), "main/loss"));
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_F(ReportsTest, ASecondRunOfATrainerGoesOn) {
  const auto toy = job(12);
  bool stops = true;
  toy->trainer->extend("stop", kEach, [&](Trainer& each) {
    if (each.iteration() == 5 && std::exchange(stops, false)) each.stop("a pause");
  });
  EXPECT_EQ(toy->trainer->run(), 0);
  EXPECT_EQ(toy->trainer->run(), 0);
  EXPECT_THAT(iterations_in_file(), ElementsAre(3, 6, 9, 12));
}

/// What the end's report took is observed again, and no more, by the time of the next report.
TEST_F(ReportsTest, AnEndThatFailsChangesNoLaterReport) {
  class Failing final : public Extension {
   public:
    std::string name() const override { return "failing"; }
    Interval trigger() const override { return {kNever, IntervalUnit::kIteration}; }
    void at_end(Trainer& trainer) override {
      if (trainer.iteration() == 5) throw DataError("fails");
    }
  };
  std::vector<std::vector<double>> losses;
  for (const bool fails : {false, true}) {
    const auto toy = job(12);
    if (fails) toy->trainer->extend(std::make_unique<Failing>());
    bool stops = fails;
    toy->trainer->extend("stop", kEach, [&](Trainer& each) {
      if (each.iteration() == 5 && std::exchange(stops, false)) each.stop("a pause");
    });
    if (fails) {
      EXPECT_THROW(static_cast<void>(toy->trainer->run()), DataError);
    }
    EXPECT_EQ(toy->trainer->run(), 0);
    EXPECT_THAT(iterations_in_file(), ElementsAre(3, 6, 9, 12));
    losses.push_back(values_of(read_log(folder_.path()), "main/loss"));
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_F(ReportsTest, ATrainerThatGoesBackReportsWhatFollows) {
  const auto toy = job(8);
  toy->trainer->extend(std::make_unique<extensions::Snapshot>(9), {.trigger = Interval(2, "iteration")});
  EXPECT_EQ(toy->trainer->run(), 0);
  for (const int from : {6, 2}) {
    EXPECT_TRUE(toy->trainer->resume(checkpoint_path(folder_.path(), from).string()));
    EXPECT_EQ(toy->trainer->run(), 0);
    EXPECT_THAT(iterations_in_file(), ElementsAre(3, 6, 8));
    EXPECT_THAT(values_of(log_->entries(), "iteration"), ElementsAre(3, 6, 8));
  }
}

TEST_F(ReportsTest, ACheckpointAndMemoryHoldNoMoreAfterManyReports) {
  constexpr std::int64_t kMany = static_cast<std::int64_t>(extensions::LogReport::kEntries) + 5;
  ToyJob toy(world(), options(kMany));
  auto& log = toy.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = kEach});
  EXPECT_EQ(toy.trainer->run(), 0);
  EXPECT_LT(log.state().dump().size(), 2000U);
  EXPECT_EQ(log.entries().size(), extensions::LogReport::kEntries);
  EXPECT_EQ(log.count(), kMany);
  EXPECT_EQ(log.since(kMany - 2).size(), 2U);
  EXPECT_EQ(read_log(folder_.path()).size(), static_cast<std::size_t>(kMany));

  toy.trainer->save(checkpoint_path(folder_.path(), kMany));
  ToyJob next(world(), options(kMany));
  auto& resumed = next.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = kEach});
  const auto& plot = next.trainer->extend(std::make_unique<extensions::PlotReport>(
      resumed, std::vector<extensions::PlotPanel>{{"loss", {"main/loss"}}}, "iteration", "/no/such/gnuplot"));
  EXPECT_TRUE(next.trainer->resume("auto"));
  EXPECT_EQ(next.trainer->run(), 0);
  EXPECT_EQ(values_of(resumed.entries(), "main/loss"), values_of(log.entries(), "main/loss"));
  if (world()->rank() == 0) {
    EXPECT_THAT(plot.script("x.png"), HasSubstr("<< EOD\n1 "));
  }
}

/// A checkpoint at 6 of 8 iterations, then a resumed run up to 9, whose log was changed by `change` before.
template <class Change>
void resume_after(const std::filesystem::path& out, const Change& change) {
  const auto run = [&](std::int64_t iterations, const std::string& from) {
    ToyJob toy(world(), {.trainer = {.iterations = iterations, .out = out}});
    toy.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(3, "iteration")});
    toy.trainer->extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval(6, "iteration")});
    EXPECT_TRUE(from.empty() || toy.trainer->resume(from));
    EXPECT_EQ(toy.trainer->run(), 0);
  };
  run(8, "");
  if (world()->rank() == 0) change();
  world()->barrier();
  static_cast<void>(take_warnings());
  run(9, checkpoint_path(out, 6).string());
}

TEST_F(ReportsTest, AResumeRemovesWhatFollowsItsCheckpoint) {
  resume_after(folder_.path(), [] {});
  EXPECT_THAT(iterations_in_file(), ElementsAre(3, 6, 9));
  EXPECT_THAT(json_text(take_warnings()), testing::Not(HasSubstr("begins anew")));
}

TEST_F(ReportsTest, ALostOrForeignLogBeginsAnewWithALine) {
  const auto path = folder_.path() / "log";
  const std::vector<std::function<void()>> changes = {
      [&] { std::filesystem::remove(path); }, [&] { write_file(path, "[]\n"); }, [&] { write_file(path, ""); },
      [&] { write_file(path, std::string(3000, 'x')); }, [&] { test::fail_opens("/log", 1, EIO); }};
  for (const auto& change : changes) {
    if (world()->rank() == 0) std::filesystem::remove_all(folder_.path() / "ckpt");
    world()->barrier();
    resume_after(folder_.path(), change);
    EXPECT_THAT(iterations_in_file(), ElementsAre(6, 9)) << "the checkpoint has its last entry";
    EXPECT_EQ(json_text(take_warnings()).find("begins anew") != std::string::npos, world()->rank() == 0);
  }
  EXPECT_THAT(values_of(parse_json(read_file(folder_.path() / "log.lost"), "the log"), "iteration"),
              ElementsAre(3, 6, 8));
}

TEST_F(ReportsTest, ARunInAnotherFolderHasTheLogOfItsCheckpoint) {
  const auto toy = job(6);
  toy->trainer->extend(std::make_unique<extensions::Snapshot>());
  EXPECT_EQ(toy->trainer->run(), 0);
  ToyOptions elsewhere = options(9);
  elsewhere.trainer.out /= "other";
  ToyJob next(world(), elsewhere);
  next.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(3, "iteration")});
  EXPECT_TRUE(next.trainer->resume(checkpoint_path(folder_.path(), 6).string()));
  EXPECT_EQ(next.trainer->run(), 0);
  EXPECT_THAT(values_of(read_log(elsewhere.trainer.out), "iteration"), ElementsAre(3, 6, 9));
  EXPECT_THAT(iterations_in_file(), ElementsAre(3, 6));
}

/// The tables of names that a program reports may come from anywhere.
TEST_F(ReportsTest, ANameThatIsNotUtf8IsReadable) {
  ToyJob toy(world(), options(1));
  toy.trainer->extend("own", kEach, [](Trainer& each) { each.report("caf\xe9", 1); });
  toy.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = kEach});
  EXPECT_EQ(toy.trainer->run(), 0);
  EXPECT_EQ(read_log(folder_.path()).at(0).at("caf\xef\xbf\xbd"), 1);
}

}  // namespace
}  // namespace mn
