// What a report tells its reader to look at, in order of its cost.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/report/findings.hpp>
#include <mn/report/headline.hpp>
#include <mn/report/run_files.hpp>
#include <mn/report/time_parts.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn::report {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kShortLog = R"([{"iteration": 10, "elapsed_time": 10, "main/loss": 3.5}])";
constexpr const char* kThreeRanks =
    R"({"event":"start","time":1,"iteration":0,"command":["job"],"hosts":["n1","n1","n2"],"device":"CPU"})"
    "\n";
constexpr const char* kNormalEnd = R"({"event":"end","time":9,"iteration":40})";

std::string step_times(int iteration, const std::string& compute, const std::string& data = "[0,0,0]",
                       const std::string& more = "") {
  return R"({"event":"report","iteration":)" + std::to_string(iteration) + R"(,"data_s":)" + data + R"(,"compute_s":)" +
         compute + R"(,"communication_s":[0,0,0])" + more + "}\n";
}

class FindingsTest : public testing::Test {
 protected:
  report::Run run_of(const std::string& log, const std::string& events) {
    const fs::path out = folder_.path() / "run";
    fs::create_directories(out);
    fs::remove(out / "config.ini");
    if (!config_.empty()) std::ofstream(out / "config.ini") << config_;
    std::ofstream(out / "log") << log;
    fs::remove(out / "run.jsonl");
    if (!events.empty()) std::ofstream(out / "run.jsonl") << events;
    return read_run(out);
  }
  /// Title and advice of each finding.
  std::vector<std::string> findings(const std::string& log, const std::string& events) {
    std::vector<std::string> texts;
    for (const Finding& each : findings_of(run_of(log, events), 1e9)) texts.push_back(each.title + "; " + each.advice);
    return texts;
  }

  std::string config_;  // text of config.ini; empty: there is none

 private:
  test::TemporaryFolder folder_;
};

TEST_F(FindingsTest, AHealthyRunHasNone) {
  EXPECT_THAT(findings(kShortLog, kThreeRanks + step_times(10, "[1,1,1]") + kNormalEnd), IsEmpty());
}

TEST_F(FindingsTest, ResultsComeBeforeTimesAndTimesBeforeWarnings) {
  const std::string warned = R"({"event":"end","iteration":20,"warnings":["rank 1 (n1): hot","rank 2 (n2): hot"]})";
  EXPECT_THAT(findings(R"([{"iteration": 3, "elapsed_time": 10, "main/loss": null}])",
                       kThreeRanks + step_times(10, "[1,2,1]") + step_times(20, "[1,2,1]") + warned),
              ElementsAre(HasSubstr("training loss was NaN or infinite at iteration 3"),
                          HasSubstr("rank 1 on host n1 kept the others waiting for 75 %"),
                          "warning: hot; rank 1 (n1), rank 2 (n2)"));
  EXPECT_THAT(findings(kShortLog, kThreeRanks), ElementsAre(HasSubstr("the run has no end")));
  EXPECT_THAT(findings(kShortLog, ""), ElementsAre(HasSubstr("record_run")));
}

TEST_F(FindingsTest, AStragglerCountsByItsCostAndIfItLasts) {
  const std::string reason =
      R"({"event":"report","iteration":30,"warnings":["rank 0 (n1): straggler: rank 1 on host n1 takes 2 ms, and all )"
      R"(wait for it: its CPU is slower"]})"
      "\n";
  EXPECT_THAT(
      findings(kShortLog, kThreeRanks + step_times(10, "[1,1,1]") + step_times(20, "[1,2,1]") + reason + kNormalEnd),
      ElementsAre(testing::AllOf(HasSubstr("rank 1 on host n1"), HasSubstr("in 1 of 2 reports"),
                                 HasSubstr("its CPU is slower"))));
  EXPECT_THAT(findings(kShortLog, kThreeRanks + step_times(10, "[1,1,1]") + step_times(20, "[1,1,1]") +
                                      step_times(30, "[1,2,1]") + kNormalEnd),
              IsEmpty())
      << "slow in one report of three only";
  EXPECT_THAT(findings(kShortLog, kThreeRanks + step_times(10, "[1,1,1]") + step_times(1000, "[1,1,1]") +
                                      step_times(1001, "[1,2,1]") + step_times(1002, "[1,2,1]") + kNormalEnd),
              IsEmpty())
      << "it cost less than 2 %";
  EXPECT_EQ(find_straggler(run_of(kShortLog, kThreeRanks + step_times(10, "[2,1]", "[0,0]"))).rank, 0U)
      << "of two, the slower one";
}

TEST_F(FindingsTest, SaysWhatMinibatchesAreWaitedFor) {
  const auto found = [&](const char* data, const char* causes) {
    return findings(R"([{"iteration": 10}])", kThreeRanks + step_times(10, "[6,6,6]", data, causes) + kNormalEnd);
  };
  const char* causes = R"(,"queue_s":[0,0,0],"storage_s":[3,3,3],"transform_s":[1,1,1],"copy_s":[0,0,0])";
  EXPECT_THAT(found("[4,4,4]", causes), ElementsAre("ranks waited for minibatches for 40 % of the time; 75 % of that "
                                                    "for reading from the storage: copy the data to the nodes "
                                                    "(StageOptions)"));
  const char* few = R"(,"queue_s":[0,0,0],"storage_s":[0,0,0],"transform_s":[0,0,0],"copy_s":[0.1,0.1,0.1])";
  EXPECT_THAT(found("[4,4,4]", few), ElementsAre("ranks waited for minibatches for 40 % of the time; "));
  EXPECT_THAT(found("[0.1,0.1,0.1]", causes), IsEmpty());
  const char* late = R"(,"queue_s":[0,0,0],"storage_s":[0,0,0],"transform_s":[0,0,0],"copy_s":[4,4,4])";
  EXPECT_THAT(found("[4,4,4]", late),
              ElementsAre("ranks waited for minibatches for 40 % of the time; 100 % of that for "
                          "the handover of finished minibatches: give each rank more cores, or "
                          "make minibatches larger (LoaderOptions::batchsize)"));
}

TEST_F(FindingsTest, SaysWhenTheModelOverfits) {
  std::string log = "[";
  for (const auto& [iteration, loss] : {std::pair(1, 0.5), std::pair(2, 0.25), std::pair(3, 0.3), std::pair(4, 0.4)}) {
    log += (iteration > 1 ? "," : "") + std::string(R"({"iteration":)") + std::to_string(iteration) +
           R"(,"main/loss":)" + std::to_string(1.0 / iteration) + R"(,"validation/main/loss":)" + std::to_string(loss) +
           "}";
  }
  EXPECT_THAT(findings(log + "]", kThreeRanks + std::string(kNormalEnd)),
              ElementsAre(HasSubstr("validation loss was best in iteration 2 (0.25) and is 0.4 now")));
}

TEST_F(FindingsTest, NamesLargePartsOfTheTime) {
  EXPECT_THAT(
      findings(kShortLog, kThreeRanks +
                              step_times(10, "[0.1,0.1,0.1]", "[0,0,0]", R"(,"validation_s":5,"checkpoint_s":1)") +
                              kNormalEnd),
      ElementsAre(HasSubstr("validation took 50 %"), HasSubstr("checkpoints took 10 %")));
}

TEST_F(FindingsTest, AdvisesOptionsThatTheProgramHas) {
  const std::string events =
      kThreeRanks + step_times(10, "[0.1,0.1,0.1]", "[0,0,0]", R"(,"checkpoint_s":1)") + kNormalEnd;
  const std::string option = "checkpoint-every = 1e\n";
  for (const auto& [config, advice] : {std::pair<std::string, const char*>("", "the trigger of Snapshot"),
                                       {option, "--checkpoint-every, or auto"},
                                       {"seed = 1\n", "the trigger of Snapshot"},
                                       {kSettingsHeader + ("\n" + option), "the trigger of Snapshot"}}) {
    config_ = config;
    EXPECT_THAT(findings(kShortLog, events), ElementsAre(HasSubstr(advice))) << config;
  }
  for (const char* log : {R"([{"iteration": 3, "main/loss": null}])", kShortLog}) {
    config_ = "";
    for (const std::string& text : findings(log, events)) EXPECT_THAT(text, testing::Not(HasSubstr("--")));
  }
}

TEST_F(FindingsTest, AnErrorEndsARun) {
  const std::string failed = R"({"event":"end","time":9,"iteration":15,"error":"uncaught std::runtime_error: boom"})";
  EXPECT_THAT(findings(kShortLog, kThreeRanks + step_times(10, "[1,1,1]") + failed),
              ElementsAre("the run ended with an error; uncaught std::runtime_error: boom"));
  const report::Run run = run_of(kShortLog, kThreeRanks + failed + "\n");
  EXPECT_EQ(state_of(run, 10), State::kFailed);
  EXPECT_THAT(state_label(run, 10), HasSubstr("ended with an error"));
  EXPECT_EQ(state_of(run_of(kShortLog, kThreeRanks + failed + "\n" + kThreeRanks), 10), State::kRunning)
      << "started again";
}

TEST_F(FindingsTest, AResumeReplacesWhatFollowsItsCheckpoint) {
  std::string again = kThreeRanks;
  again.replace(again.find("\"iteration\":0"), 13, "\"iteration\":10");
  const std::string cut = "{\"event\":\"rep\n";
  const report::Run read = run_of(kShortLog, kThreeRanks + step_times(10, "[1]", "[0]") + step_times(20, "[2]", "[0]") +
                                                 cut + again + step_times(30, "[3]", "[0]") + "{\"eve");
  ASSERT_EQ(read.times.size(), 2U);
  EXPECT_EQ(read.times[1].at("compute_s").at(0), 3);
  EXPECT_EQ(read.times[1].at("steps"), 20) << "since the checkpoint";
  EXPECT_EQ(read.resumes, 1);
  EXPECT_FALSE(read.ended);
}

TEST_F(FindingsTest, ARunIsQuietAfterSeveralOfItsPauses) {
  const auto at = [](double time) {
    return R"({"event":"report","iteration":40,"time":)" + std::to_string(time) + "}\n";
  };
  const auto state = [](const report::Run& run, double silence_s) { return state_of(run, *run.last_time + silence_s); };
  const report::Run quick = run_of(R"([{"iteration": 40, "elapsed_time": 10}])", kThreeRanks + at(3) + at(5));
  EXPECT_EQ(state(quick, 59), State::kRunning);
  EXPECT_EQ(state(quick, 61), State::kQuiet);
  EXPECT_EQ(state(quick, 1801), State::kLost);
  EXPECT_EQ(quiet_text(quick, 5 + 100), "no report for 1 min 40 s");
  const report::Run slow = run_of(kShortLog, kThreeRanks + at(101) + at(901));
  EXPECT_EQ(state(slow, 1900), State::kRunning) << "its reports are 800 s apart";
  EXPECT_EQ(state(slow, 2500), State::kLost);
  EXPECT_EQ(state(run_of(kShortLog, kThreeRanks), 1000), State::kRunning) << "before its first report";
  const std::string facts = R"("run":{"iterations":40},)";
  std::string done = kThreeRanks;
  done.insert(1, facts);
  const report::Run cut = run_of(R"([{"iteration": 40, "elapsed_time": 10}])", done + at(3) + at(5));
  EXPECT_THAT(state_label(cut, 6), HasSubstr(">running, 100 % done<"));
  EXPECT_THAT(state_label(cut, 105), HasSubstr("no report for 1 min 40 s, 100 % done<"));
}

}  // namespace
}  // namespace mn::report
