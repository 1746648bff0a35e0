// What reaches OUT/log: values of every extension, the end of a training, a resumed run, a disk that is full.
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
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
#include <mn/core/trace.hpp>
#include <mn/trainer/extensions/dump_graph.hpp>
#include <mn/trainer/extensions/early_stopping.hpp>
#include <mn/trainer/extensions/list_file.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/plot_report.hpp>
#include <mn/trainer/extensions/profile.hpp>
#include <mn/trainer/extensions/run_record.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/extensions/tensorboard.hpp>
#include <mn/trainer/extensions/validation.hpp>

#include "tests/support/failing_calls.hpp"
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

const Interval kEach(1, "iteration");
constexpr std::int64_t kNever = 1'000'000;

json read_log(const std::filesystem::path& out) { return parse_json(read_file(out / "log"), "the log"); }

/// A value of each entry; −1 where it has none.
std::vector<double> values_of(const json& entries, const std::string& name) {
  std::vector<double> values;
  for (const json& entry : entries) values.push_back(entry.contains(name) ? entry.at(name).get<double>() : -1);
  return values;
}

/// The iteration in which it evaluated.
class IterationEvaluator final : public Evaluator {
 public:
  explicit IterationEvaluator(const Trainer& trainer) : trainer_(trainer) {}
  Summary evaluate_local() override {
    Summary summary;
    summary.add("iteration", static_cast<double>(trainer_.iteration()));
    return summary;
  }

 private:
  const Trainer& trainer_;
};

void add_validation(Trainer& trainer, Interval trigger) {
  trainer.extend(std::make_unique<extensions::Validation>(
                     create_multi_node_evaluator(std::make_unique<IterationEvaluator>(trainer), world())),
                 {.trigger = trigger});
}

class ReportsTest : public testing::Test {
 protected:
  TestFolder folder_{world()};

  ToyOptions options(std::int64_t iterations) { return {.trainer = {.iterations = iterations, .out = folder_.path()}}; }
  /// A job of so many iterations that reports every third, and validates never but at the end.
  std::unique_ptr<ToyJob> job(std::int64_t iterations) {
    auto made = std::make_unique<ToyJob>(world(), options(iterations));
    log_ = &made->trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(3, "iteration")});
    add_validation(*made->trainer, Interval(kNever, "iteration"));
    return made;
  }
  std::vector<double> iterations_in_file() { return values_of(read_log(folder_.path()), "iteration"); }

  extensions::LogReport* log_ = nullptr;
};

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

/// One call on the file after the other fails, or all from one on.
TEST_F(ReportsTest, TheLogIsAListAfterEachCallThatFails) {
  struct Kind {
    test::CallFault fault;
    int error;
    bool from_then_on;
  };
  if (world()->rank() != 0) return;
  const auto path = folder_.path() / "log";
  const auto rows = [&] {  // by calls that do not fail
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    const json list = json::parse(text.str(), nullptr, false);
    return list.is_array() ? values_of(list, "row") : std::vector<double>{-2};
  };
  for (const Kind& kind : {Kind{test::CallFault::kError, EIO, false}, Kind{test::CallFault::kError, ENOSPC, true},
                           Kind{test::CallFault::kShort, 0, false}}) {
    for (std::int64_t at = 0; at < 12; ++at) {
      extensions::ListFile file(path);
      file.add({{"row", 1}});
      file.write();
      test::fail_call(path, at, kind.fault, kind.error, kind.from_then_on);
      for (int row = 2; row <= 5; ++row) {
        file.add({{"row", row}});
        bool is_written = true;
        try {
          file.write();
        } catch (const DataError&) {
          is_written = false;
        }
        EXPECT_EQ(rows().size(), is_written ? row : rows().size()) << at;
        EXPECT_THAT(rows(), testing::Each(testing::Ge(1))) << at;
      }
      test::stop_failing();
      file.write();
      EXPECT_THAT(rows(), ElementsAre(1, 2, 3, 4, 5)) << at;
      EXPECT_EQ(extensions::ListFile::rows_of(read_file(path)).size(), 5U);
    }
  }
}

/// The last write is made again at the end.
TEST_F(ReportsTest, TheLastReportsWriteIsTriedAgain) {
  ToyJob toy(world(), options(2));
  toy.trainer->extend("disk", kEach, [&](Trainer& each) {  // before the log
    if (each.is_root() && each.iteration() == 2)
      test::fail_call(folder_.path() / "log", 0, test::CallFault::kError, ENOSPC, true);
  });
  toy.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = kEach});
  toy.trainer->extend("room", kEach, [&](Trainer& each) {
    if (!each.is_root() || each.iteration() != 2) return;
    EXPECT_GT(test::stop_failing(), 0);
  });
  EXPECT_EQ(toy.trainer->run(), 0);
  EXPECT_THAT(iterations_in_file(), ElementsAre(1, 2));
}

/// Everything but checkpoints, while the disk is full.
void train_on_a_full_disk(const std::filesystem::path& out, std::int64_t full_until, bool takes_warnings) {
  auto trace = std::make_shared<Trace>();
  ToyOptions options = {.trainer = {.iterations = 6, .out = out, .trace = trace}};
  options.optimizer.trace = trace;
  ToyJob toy(world(), options);
  const auto& log = toy.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = kEach});
  toy.trainer->extend(std::make_unique<extensions::DumpGraph>());
  if (takes_warnings) toy.trainer->extend(std::make_unique<extensions::RunRecord>(log));
  toy.trainer->extend(std::make_unique<extensions::TensorBoard>(log, "text"));
  toy.trainer->extend(std::make_unique<extensions::Profile>());
  const auto at = [&](std::int64_t iteration) {
    if (world()->rank() == 0 && iteration == full_until) test::stop_failing();
  };
  toy.trainer->extend("room", kEach, [&](Trainer& each) { at(each.iteration()); });
  static_cast<void>(take_warnings());
  if (world()->rank() == 0) test::fail_call(out, 0, test::CallFault::kError, ENOSPC, true);
  EXPECT_EQ(toy.trainer->run(), 0);
  at(kNever);
}

TEST_F(ReportsTest, AFullDiskEndsNoTrainingAndFilesAreWholeOnceThereIsRoom) {
  const auto out = folder_.path();
  train_on_a_full_disk(out, 4, true);
  if (world()->rank() == 0) {
    EXPECT_EQ(read_log(out).size(), 6U);
    EXPECT_THAT(read_file(out / "cg.dot"), testing::StartsWith("digraph"));
    const std::string record = read_file(out / "run.jsonl");
    EXPECT_EQ(std::ranges::count(record, '\n'), 8);
    EXPECT_THAT(record, testing::AllOf(testing::StartsWith(R"({"command")"), HasSubstr(R"("event":"end")"),
                                       HasSubstr("the next write tries again")));
    const std::string profile = read_file(out / "profile.jsonl");
    EXPECT_EQ(std::ranges::count(profile, '\n'), 6);
    const std::string events = read_file(std::filesystem::directory_iterator(out / "tensorboard")->path());
    EXPECT_THAT(events, testing::AllOf(HasSubstr("brain.Event:2"), HasSubstr("text")));
    EXPECT_GT(events.size(), 1000U);
    EXPECT_TRUE(std::filesystem::exists(out / "trace.json"));
  }
}

TEST_F(ReportsTest, ADiskThatStaysFullIsSaidOnceAndAtTheEnd) {
  train_on_a_full_disk(folder_.path(), kNever, false);
  if (world()->rank() != 0) return;
  const std::vector<std::string> lines = take_warnings();
  for (const char* name : {"log", "cg.dot", "profile.jsonl", "trace.json", "tensorboard"}) {
    const auto of_it = [&](const char* what) {
      return std::ranges::count_if(lines, [&](const std::string& line) {
        const bool names_it = line.find(std::string("/") + name) != line.npos ||
                              line.find(std::string("/.") + name + ".") != line.npos;  // its temporary file
        return names_it && line.find(what) != line.npos;
      });
    };
    EXPECT_EQ(of_it("the next write tries again"), 1) << name << json_text(lines);
    EXPECT_EQ(of_it("is missing there"), 1) << name << json_text(lines);
  }
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
