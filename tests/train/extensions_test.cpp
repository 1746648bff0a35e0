// Chainer's extensions: the log, the table, the graph, plots.
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/dump_graph.hpp>
#include <mn/trainer/extensions/fail_on_non_number.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/plot_report.hpp>
#include <mn/trainer/extensions/print_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/extensions/tensorboard.hpp>
#include <mn/trainer/extensions/validation.hpp>

#include "tests/support/failing_calls.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::same_on_all;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

/// A loss whose mean over all ranks' samples is known.
class RankEvaluator final : public Evaluator {
 public:
  Summary evaluate_local() override {
    Summary summary;
    summary.add("loss", world()->rank(), world()->rank() + 1);
    return summary;
  }
};

TEST(ExtensionsTest, ValidationOfOwnSamplesIsAnError_from_2_ranks) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.epochs = 1, .out = folder.path()}});
  job.trainer->extend(std::make_unique<extensions::Validation>(std::make_unique<RankEvaluator>()));
  EXPECT_THAT([&] { static_cast<void>(job.trainer->run()); },
              ThrowsMessage<UsageError>(HasSubstr("\"validation\" (create_multi_node_evaluator()")));
}

TEST(ExtensionsTest, TheLogHoldsEveryReport) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.epochs = 3, .out = folder.path()}});
  job.trainer->extend(std::make_unique<extensions::Validation>(
      create_multi_node_evaluator(std::make_unique<RankEvaluator>(), world())));
  const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>());
  EXPECT_EQ(job.trainer->run(), 0);

  double weighted = 0;
  double weights = 0;
  for (int r = 0; r < world()->size(); ++r) {
    weighted += r * (r + 1.0);
    weights += r + 1.0;
  }
  EXPECT_EQ(log.entries().size(), 3U);
  EXPECT_EQ(log.last("main/loss"), log.entries().back().at("main/loss"));
  EXPECT_THAT([&] { static_cast<void>(log.last("main/los")); },
              ThrowsMessage<ArgumentError>(HasSubstr("no \"main/los\", but bytes_per_step, elapsed_time, epoch")));
  const json written = json::parse(read_file(folder.path() / "log"));
  EXPECT_EQ(written.size(), 3U);
  for (std::size_t i = 0; i < written.size(); ++i) {
    const json& entry = written[i];
    EXPECT_EQ(entry.at("epoch"), i + 1);
    EXPECT_GT(entry.at("images_per_second"), 0);
    EXPECT_EQ(entry.at("iteration"), (i + 1) * job.iterator->steps_per_epoch());
    EXPECT_NEAR(entry.at("validation/main/loss"), weighted / weights, 1e-12);
    EXPECT_EQ(entry.at("lr"), 0.01);
    EXPECT_GT(entry.at("main/loss"), 0);
    EXPECT_GE(entry.at("main/accuracy"), 0);
    EXPECT_GT(entry.at("images_per_second"), 0);
    EXPECT_GT(entry.at("elapsed_time"), i == 0 ? 0.0 : written[i - 1].at("elapsed_time").get<double>());
    EXPECT_EQ(entry.at("main/loss"), log.entries()[i].at("main/loss"));
  }
}

TEST(ExtensionsTest, ThePrintedTableIsChainers) {
  const extensions::LogReport log;
  const extensions::PrintReport table(log);
  const extensions::PrintReport narrow(log, {"x", "y"});
  EXPECT_EQ(narrow.line({{"x", -1.23456789e-05}, {"y", 2}}), "-1.235e-05  2           ") << "no wider than its column";
  EXPECT_EQ(table.header(),
            "epoch       main/loss   validation/main/loss  main/accuracy  validation/main/accuracy  elapsed_time  ");
  EXPECT_EQ(table.line({{"epoch", 1}, {"main/loss", 0.19}, {"main/accuracy", nullptr}, {"elapsed_time", 12.5}}),
            "1           0.19                              nan                                      12.5          ");
}

/// The header comes again when a validation adds a column; a value that nobody reports has none.
TEST(ExtensionsTest, TheTableMayHaveTheColumnsOfItsEntries) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 3, .out = folder.path()}});
  job.trainer->extend(
      std::make_unique<extensions::Validation>(create_multi_node_evaluator(std::make_unique<RankEvaluator>(), world())),
      {.trigger = Interval(2, "iteration")});
  const auto& log =
      job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(1, "iteration")});
  const std::vector<std::string> columns = {"iteration", "validation/main/loss", "main/none", "main/loss"};
  job.trainer->extend(
      std::make_unique<extensions::PrintReport>(log, columns, extensions::PrintReport::Header::kOfEntries));
  testing::internal::CaptureStdout();
  EXPECT_EQ(job.trainer->run(), 0);
  const std::string said = testing::internal::GetCapturedStdout();
  const testing::Matcher<std::string> table = testing::ContainsRegex(
      "^iteration   main/loss   \n1 .*\niteration   validation/main/loss  main/loss   \n2 .*\n3 .*\n$");
  EXPECT_THAT(said, world()->rank() == 0 ? table : testing::Matcher<std::string>(testing::IsEmpty()));
}

TEST(ExtensionsTest, TheGraphNamesParametersAndOperations) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 2, .out = folder.path()}});
  job.trainer->extend(std::make_unique<extensions::DumpGraph>());
  EXPECT_EQ(job.trainer->run(), 0);
  const std::string dot = read_file(folder.path() / "cg.dot");
  EXPECT_TRUE(dot.starts_with("digraph")) << dot;
  for (const char* part : {"first.weight\\n5×6", "first.bias\\n5", "second.weight\\n3×5", "second.bias\\n3",
                           "label=\"Tanh\"", "label=\"Addmm\"", "label=\"NllLoss\"", "-> \"loss\""}) {
    EXPECT_THAT(dot, HasSubstr(part));
  }
}

/// A job whose loss becomes NaN on the last rank in the second epoch.
std::unique_ptr<Trainer> diverging_job(const TestFolder& folder, bool on_all_ranks = false) {
  const auto parameter = torch::ones({2}).requires_grad_();
  auto sgd = std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{parameter}, torch::optim::SGDOptions(0.1));
  const auto iterator = std::make_shared<toy::ToyIterator>(8 * world()->size(), 1, *world());
  const auto loss = [parameter, iterator, on_all_ranks](const Batch&, Summary&) {
    const bool diverges = iterator->epoch_detail() > 1.5 && (on_all_ranks || world()->rank() == world()->size() - 1);
    return parameter.sum() * (diverges ? std::numeric_limits<double>::quiet_NaN() : 1.0);
  };
  return std::make_unique<Trainer>(world(), create_multi_node_optimizer(std::move(sgd), world()), iterator,
                                   std::make_shared<toy::ToyNet>(false), loss,
                                   TrainerOptions{.epochs = 3, .out = folder.path()});
}

std::string raw(double value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

/// TensorBoard's EventAccumulator reads these bytes as least, greatest, number, sum, sum of squares, limits and counts.
std::string histogram_message(const std::vector<double>& limits, const std::vector<double>& counts,
                              const std::string& bytes_of_list) {
  std::string message = "\x09" + raw(-1) + "\x11" + raw(3) + "\x19" + raw(4) + "\x21" + raw(3) + "\x29" + raw(10.5);
  message += "\x32" + bytes_of_list;
  for (const double limit : limits) message += raw(limit);
  message += "\x3a" + bytes_of_list;
  for (const double count : counts) message += raw(count);
  return message;
}

TEST(ExtensionsTest, TensorBoardHasTheNumbersOfHistograms) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 1, .out = folder.path()}});
  const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>());
  auto& board = job.trainer->extend(std::make_unique<extensions::TensorBoard>(log));
  job.trainer->extend("own", {1, "iteration"}, [&](Trainer& trainer) {
    board.add_histogram(trainer, "own", torch::tensor(std::vector<double>{-1, 0.5, NAN, 0.5, INFINITY, 3}));
    board.add_histogram(trainer, "equal", torch::full({2, 3}, 0.25));
    board.add_histogram(trainer, "none", torch::full({2}, NAN));
  });
  EXPECT_EQ(job.trainer->run(), 0);
  world()->barrier();
  const std::string events = read_file(std::filesystem::directory_iterator(folder.path() / "tensorboard")->path());
  std::vector<double> limits, counts(64);
  for (int i = 1; i <= 64; ++i) limits.push_back(-1 + i / 16.0);
  counts[0] = counts[63] = 1;
  counts[24] = 2;
  EXPECT_THAT(events, HasSubstr("\x0a\x03own\x2a\xb3\x08" + histogram_message(limits, counts, "\x80\x04")));
  EXPECT_THAT(events, HasSubstr("\x32\x08" + raw(0.25) + "\x3a\x08" + raw(6))) << "one value";
  EXPECT_THAT(events, testing::Not(HasSubstr("none")));
}

TEST(ExtensionsTest, TensorBoardTakesAJobsOwnPicturesAndTexts) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.epochs = 2, .out = folder.path()}});
  const auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>());
  auto& board = job.trainer->extend(std::make_unique<extensions::TensorBoard>(log));
  job.trainer->extend("own", {1, "epoch"}, [&](Trainer& trainer) {
    board.add_image(trainer, "picture", "an encoded file", 3, 4);
    board.add_text(trainer, "note", "*text*");
  });
  EXPECT_EQ(job.trainer->run(), 0);
  world()->barrier();
  const std::filesystem::directory_iterator files(folder.path() / "tensorboard");
  const std::string events = read_file(files->path());
  EXPECT_EQ(std::distance(files, {}), 1) << "rank 0 alone writes";
  // The tag, then Summary.Image: field 4 of 23 bytes with height 3, width 4, RGB and the file.
  const std::string image = std::string("\x0a\x07picture\x22\x17\x08\x03\x10\x04\x18\x03\x22\x0f") + "an encoded file";
  EXPECT_THAT(events, HasSubstr(image));
  EXPECT_THAT(events, HasSubstr("*text*"));
}

TEST(ExtensionsTest, ALossThatIsNotFiniteIsNullInTheLog) {
  const TestFolder folder(world());
  const auto trainer = diverging_job(folder);
  trainer->extend(std::make_unique<extensions::LogReport>());
  EXPECT_EQ(trainer->run(), 0);
  const auto log = json::parse(read_file(folder.path() / "log"));
  EXPECT_TRUE(log.at(0).at("main/loss").is_number());
  EXPECT_TRUE(log.at(1).at("main/loss").is_null());
}

/// On all ranks, as here nothing else ends those that wait for one; a job names the rank that throws.
TEST(ExtensionsTest, ATrainingThatDivergesEndsInItsStep) {
  const TestFolder folder(world());
  const auto trainer = diverging_job(folder, true);
  const auto& log = trainer->extend(std::make_unique<extensions::LogReport>());
  trainer->extend(std::make_unique<extensions::FailOnNonNumber>(log));
  trainer->extend(std::make_unique<extensions::Snapshot>());
  try {
    (void)trainer->run();
    ADD_FAILURE() << "training continued";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the loss is nan in iteration 13"));
  }
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder.path(), 8)));
  EXPECT_FALSE(std::filesystem::exists(checkpoint_path(folder.path(), 16)));
}

TEST(ExtensionsTest, AReportedValueThatIsNotFiniteEndsAllRanks) {
  const TestFolder folder(world());
  const auto trainer = diverging_job(folder);
  const auto& log = trainer->extend(std::make_unique<extensions::LogReport>());
  trainer->extend("report", {1, "epoch"}, [](Trainer& each) { each.report("norm", each.epoch() == 1 ? 1 : INFINITY); });
  trainer->extend(std::make_unique<extensions::FailOnNonNumber>(log, "norm"));
  try {
    (void)trainer->run();
    ADD_FAILURE() << "training continued";
  } catch (const DataError& error) {
    EXPECT_TRUE(error.on_all_ranks());
    EXPECT_THAT(error.what(), HasSubstr("norm is inf after iteration"));
  }
}

TEST(ExtensionsTest, TheLogFileIsAWholeListAfterEachReport) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 5, .out = folder.path()}});
  const Interval each(1, "iteration");
  auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = each});
  ino_t first = 0;
  job.trainer->extend("read", each, [&](Trainer& trainer) {
    log.run(trainer);  // again: nothing
    if (!trainer.is_root()) return;
    EXPECT_EQ(json::parse(read_file(folder.path() / "log")), json(log.entries()));
    EXPECT_EQ(read_file(folder.path() / "log"), json(log.entries()).dump(4) + "\n");
    struct stat facts = {};
    EXPECT_EQ(stat((folder.path() / "log").c_str(), &facts), 0);
    if (first == 0) first = facts.st_ino;
    EXPECT_EQ(facts.st_ino, first) << "the file is written again";
  });
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_EQ(log.entries().size(), 5U);
}

TEST(ExtensionsTest, AReportThatCouldNotBeWrittenComesWithTheNext) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 3, .out = folder.path()}});
  const Interval each(1, "iteration");
  auto& log = job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = each});
  job.trainer->extend("full disk", each, [&](Trainer& trainer) {
    if (!trainer.is_root()) return;
    if (trainer.iteration() == 1) test::fail_call(folder.path() / "log", 0, test::CallFault::kError, ENOSPC, true);
    if (trainer.iteration() == 2) {
      EXPECT_GT(test::stop_failing(), 0) << "the second report is written";
    }
  });
  EXPECT_EQ(job.trainer->run(), 0);
  if (world()->rank() == 0) {
    EXPECT_EQ(json::parse(read_file(folder.path() / "log")), json(log.entries()));
  }
  EXPECT_EQ(log.entries().size(), 3U);
}

class PlotTest : public testing::Test {
 protected:
  TestFolder folder_{world()};
  ToyJob job_{world(), {.trainer = {.epochs = 2, .out = folder_.path()}}};

  std::filesystem::path script(const std::string& name, const std::string& body) {
    const auto path = folder_.path() / name;
    if (world()->rank() == 0) {
      std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
      std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    }
    world()->barrier();
    return path;
  }
  std::unique_ptr<extensions::PlotReport> plot(const extensions::LogReport& log, const std::string& program) {
    return std::make_unique<extensions::PlotReport>(
        log, std::vector<extensions::PlotPanel>{{"it's the loss", {"main/loss", "no such value"}}}, "iteration",
        program);
  }
};

TEST_F(PlotTest, TheScriptHoldsThePoints) {
  const extensions::LogReport log;
  const auto report = plot(log, "gnuplot");
  EXPECT_EQ(report->script("x.png"), "");
  report->add({{"iteration", 2}, {"main/loss", 0.5}});
  report->add({{"iteration", 4}, {"main/loss", nullptr}});
  report->add({{"iteration", 6}, {"main/loss", 0.25}});
  const std::string text = report->script("it's.png");
  EXPECT_THAT(text, HasSubstr("<< EOD\n2 0.5\n6 0.25\nEOD\n"));
  EXPECT_THAT(text, HasSubstr("set output 'it''s.png'"));
  EXPECT_THAT(text, HasSubstr("set title 'it''s the loss'"));
  EXPECT_THAT(text, testing::Not(HasSubstr("no such value")));
}

TEST_F(PlotTest, ALongCurveIsThinnedAndKeepsItsEnd) {
  const extensions::LogReport log;
  const auto report = plot(log, "gnuplot");
  for (int i = 1; i <= 100'000; ++i) report->add({{"iteration", i}, {"main/loss", i}});
  const std::string text = report->script("x.png");
  EXPECT_THAT(text, HasSubstr("<< EOD\n1 1\n"));
  EXPECT_THAT(text, HasSubstr("\n100000 100000\nEOD\n"));
  const auto lines = std::ranges::count(text, '\n');
  EXPECT_GT(lines, 500);
  EXPECT_LT(lines, 1100);
}

TEST_F(PlotTest, TheImageReplacesTheOldOneWhenItIsDone) {
  // Acts as gnuplot: keeps its input and writes the image.
  const auto program =
      script("draw", "cat > \"$(dirname \"$0\")/input\"; echo image > \"$(dirname \"$0\")/.plot.png.tmp\"");
  const auto& log = job_.trainer->extend(std::make_unique<extensions::LogReport>());
  job_.trainer->extend(plot(log, program.string()));
  EXPECT_EQ(job_.trainer->run(), 0);
  EXPECT_EQ(read_file(folder_.path() / "plot.png"), "image\n");
  EXPECT_THAT(read_file(folder_.path() / "input"), HasSubstr(std::to_string(job_.trainer->iteration()) + " "));
}

TEST_F(PlotTest, AnAbsentOrFailingProgramLeavesTrainingAlone) {
  const auto& log = job_.trainer->extend(std::make_unique<extensions::LogReport>());
  job_.trainer->extend(plot(log, "/no/such/gnuplot"), {.name = "absent"});
  job_.trainer->extend(plot(log, script("fails", "exit 3").string()), {.name = "fails"});
  job_.trainer->extend(plot(log, script("deaf", "exec <&-; exit 0").string()), {.name = "deaf"});
  EXPECT_EQ(job_.trainer->run(), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "plot.png"));
}

TEST_F(PlotTest, AProgramThatHangsIsNotWaitedFor) {
  extensions::LogReport log;
  log.load_state(json::parse(R"([{"iteration": 1, "main/loss": 2}])"));
  const auto report = plot(log, script("hangs", "exec sleep 1000").string());
  for (int i = 0; i < 3; ++i) report->run(*job_.trainer);  // the destructor ends it
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "plot.png"));
}

}  // namespace
}  // namespace mn
