// OUT/log and the other output files on storage that fails or is full.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/trace.hpp>
#include <mn/trainer/extensions/dump_graph.hpp>
#include <mn/trainer/extensions/list_file.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/profile.hpp>
#include <mn/trainer/extensions/run_record.hpp>
#include <mn/trainer/extensions/tensorboard.hpp>

#include "tests/support/failing_calls.hpp"
#include "tests/train/reports.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using toy::read_log;
using toy::ToyJob;
using toy::ToyOptions;
using toy::values_of;
using toy::world;

class FullDiskTest : public toy::ReportsTest {};

/// One call on the file after the other fails, or all from one on.
TEST_F(FullDiskTest, TheLogIsAListAfterEachCallThatFails) {
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
TEST_F(FullDiskTest, TheLastReportsWriteIsTriedAgain) {
  ToyJob toy(world(), options(2));
  toy.trainer->extend("disk", toy::kEach, [&](Trainer& each) {  // before the log
    if (each.is_root() && each.iteration() == 2)
      test::fail_call(folder_.path() / "log", 0, test::CallFault::kError, ENOSPC, true);
  });
  toy.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = toy::kEach});
  toy.trainer->extend("room", toy::kEach, [&](Trainer& each) {
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
  const auto& log = toy.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = toy::kEach});
  toy.trainer->extend(std::make_unique<extensions::DumpGraph>());
  if (takes_warnings) toy.trainer->extend(std::make_unique<extensions::RunRecord>(log));
  toy.trainer->extend(std::make_unique<extensions::TensorBoard>(log, "text"));
  toy.trainer->extend(std::make_unique<extensions::Profile>());
  const auto at = [&](std::int64_t iteration) {
    if (world()->rank() == 0 && iteration == full_until) test::stop_failing();
  };
  toy.trainer->extend("room", toy::kEach, [&](Trainer& each) { at(each.iteration()); });
  static_cast<void>(take_warnings());
  if (world()->rank() == 0) test::fail_call(out, 0, test::CallFault::kError, ENOSPC, true);
  EXPECT_EQ(toy.trainer->run(), 0);
  at(toy::kNever);
}

TEST_F(FullDiskTest, AFullDiskEndsNoTrainingAndFilesAreWholeOnceThereIsRoom) {
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

TEST_F(FullDiskTest, ADiskThatStaysFullIsSaidOnceAndAtTheEnd) {
  train_on_a_full_disk(folder_.path(), toy::kNever, false);
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

}  // namespace
}  // namespace mn
