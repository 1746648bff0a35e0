// What a survey of the ranks becomes: kinds of ranks, and a table.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/activity.hpp>
#include <mn/core/json.hpp>
#include <mn/job/progress_watch.hpp>

namespace mn {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string text_of(int rank, const std::string& host, const std::string& state, double silent_s, bool stuck,
                    const std::string& stack = "") {
  const nlohmann::json kind = {{"state", state},  {"call", stuck ? "allreduce 812" : ""},
                               {"iteration", 57}, {"silent_s", silent_s},
                               {"stuck", stuck},  {"ranks", {rank}},
                               {"hosts", {host}}, {"stack", stack}};
  return nlohmann::json::array({kind}).dump();
}

TEST(HangReport, RanksThatDoTheSameAreOneLine) {
  std::vector<std::string> texts;
  for (const int rank : {3, 0, 2, 5}) {
    texts.push_back(text_of(rank, rank < 4 ? "vn1" : "vn2", "training", 61 + rank, true, "MPI_Allreduce\n"));
  }
  texts.push_back(text_of(1, "vn1", "waiting for a minibatch", 62, true, "read\n"));
  const std::string below = merge_descriptions({texts[0], texts[1], texts[2]});
  const HangReport report = hang_report(merge_descriptions({below, texts[3], texts[4], "damaged", "{}"}), 7);
  EXPECT_THAT(report.table, HasSubstr("  stuck  ranks 0,2-3,5 on vn[1-2]: training, after iteration 57, in allreduce "
                                      "812, no progress for 66 s\n"));
  EXPECT_THAT(report.table, HasSubstr("  stuck  rank 1 on vn1: waiting for a minibatch, after iteration 57, "));
  EXPECT_THAT(report.table, HasSubstr("no answer from 4,6\n"));
  EXPECT_THAT(report.table, HasSubstr("  stack of rank 1:\n    read\n"));
  EXPECT_THAT(report.message, HasSubstr("ranks 0-3,5 make no progress"));
  EXPECT_TRUE(report.is_over);
}

TEST(HangReport, ARankThatMayTakeLongerIsWaitedFor) {
  const auto with = [](double seconds, const std::string& state) {
    return hang_report(
        merge_descriptions({text_of(0, "a", "training", 61, true), text_of(1, "b", state, seconds, false)}), 2);
  };
  const HangReport waits = with(60, "extension plot");
  EXPECT_FALSE(waits.is_over);
  EXPECT_THAT(waits.message, HasSubstr("may wait for rank 1 on b: extension plot"));
  EXPECT_TRUE(with(3, "training").is_over) << "it goes on without the others";
  EXPECT_TRUE(with(60, "").is_over) << "it has left the training";
  EXPECT_EQ(hang_report(text_of(0, "a", "training", 5, false), 1).message, "");
  nlohmann::json waiting = nlohmann::json::parse(text_of(1, "b", "extension plot", 60, false));
  waiting[0]["call"] = "barrier 812";
  EXPECT_TRUE(hang_report(merge_descriptions({text_of(0, "a", "training", 61, true), waiting.dump()}), 2).is_over)
      << "it waits for others itself";
}

TEST(ActivityTest, StatesHaveLimitsOfTheirOwn) {
  EXPECT_FALSE(activity_now().is_stuck()) << "nothing is watched outside of scopes";
  const ActivityScope training("training", std::chrono::seconds(100));
  note_iteration(3);
  EXPECT_EQ(activity_now().limit_s, 100);
  {
    const ActivityScope saving("writing a checkpoint", std::chrono::seconds(600));
    EXPECT_EQ(activity_now().state, "writing a checkpoint");
    EXPECT_EQ(activity_now().limit_s, 600);
  }
  EXPECT_EQ(activity_now().state, "training");
  EXPECT_EQ(activity_now().iteration, 3);
  discount_standstill(std::chrono::seconds(-200));
  EXPECT_TRUE(activity_now().is_stuck());
  set_call_source([] { return std::string("bcast 4"); });
  EXPECT_EQ(activity_now().call, "bcast 4");
  set_call_source(nullptr);
  note_progress();
  EXPECT_FALSE(activity_now().is_stuck());
  EXPECT_GE(activity_now().limit_s, 5 * 200) << "five times the longest";
}

TEST(ActivityTest, AFirstStepMayTakeLongerUnlessItIsInACall) {
  const ActivityScope computing("computing", std::chrono::seconds(10), std::chrono::seconds(50));
  EXPECT_EQ(activity_now().limit_s, 50);
  set_call_source([] { return std::string("bcast 4"); });
  EXPECT_EQ(activity_now().limit_s, 10);
  set_call_source(nullptr);
  note_progress();
  EXPECT_EQ(activity_now().limit_s, 10);
}

TEST(ActivityTest, AStateThatWasLeftHasMadeItsFirstStep) {
  const auto limit = [] {
    const ActivityScope waiting("waiting for data", std::chrono::seconds(10), std::chrono::seconds(50));
    return activity_now().limit_s;
  };
  EXPECT_EQ(limit(), 50);
  EXPECT_EQ(limit(), 10);
}

TEST(ThreadStack, NamesTheFunctionsOfAThread) {
  prepare_stacks();
  std::atomic<bool> stop = false;
  std::atomic<bool> started = false;
  WatchedThread other;
  std::thread thread([&] {
    other = WatchedThread();
    started = true;
    while (!stop) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  while (!started) std::this_thread::yield();
  EXPECT_THAT(stack_of(other), HasSubstr("\n"));
  EXPECT_THAT(stack_of(other), Not(HasSubstr("takes no signal")));
  stop = true;
  thread.join();
}

}  // namespace
}  // namespace mn
