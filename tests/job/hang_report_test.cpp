// From a survey's answers to the report: states of ranks, who waits for whom, a table and a line.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/core/activity.hpp>
#include <mn/job/hang_report.hpp>
#include <mn/job/rank_state.hpp>

namespace mn {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

RankState outside(int rank, const std::string& state, double seconds) {
  return {.ranks = {rank},
          .hosts = {rank < 4 ? "vn1" : "vn2"},
          .state = state,
          .iteration = 57,
          .seconds = seconds,
          .groups = {{0, 0, 1}, {0, 1, 811}}};
}

/// A rank in the collective call `number` of the group of all ranks.
RankState in_call(int rank, std::int64_t number, double seconds, const std::string& operation = "allreduce") {
  RankState state = outside(rank, "training", seconds);
  state.operation = operation;
  state.call = operation + " (call " + std::to_string(number) + ")";
  state.blocks = true;
  state.leader = 0;
  state.ordinal = 1;
  state.number = static_cast<std::uint64_t>(number);
  state.stuck = seconds > 60;
  state.groups = {{0, 0, 1}, {0, 1, number}};
  return state;
}

RankState in_message(int rank, int peer, double seconds, const std::string& operation) {
  RankState state = in_call(rank, 0, seconds, operation);
  state.groups = {{0, 0, 1}, {0, 1, 811}};
  state.peer = peer;
  return state;
}

RankState gone(int rank, std::int64_t last_call, double seconds = 5) {
  RankState state = outside(rank, "", seconds);
  state.left = "left main (status 0)";
  state.groups = {{0, 0, 1}, {0, 1, last_call}};
  return state;
}

TEST(OwnState, CountsTheTimeSinceARankHasLeft) {
  OwnState own({0, "vn1"}, WatchedThread{});
  {
    const RecordedCall call({}, {.operation = "barrier", .number = 1});
    own.look();
  }
  own.leave("left main (status 0)");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  own.look();
  EXPECT_GT(own.now().seconds, 0);
}

HangReport report_of(const std::vector<RankState>& states, int ranks, double peer_patience_s = 60) {
  std::vector<std::string> texts;
  for (const RankState& state : states) texts.push_back(text_of({state}));
  return hang_report(merge_states(texts, ranks), {.ranks = ranks, .peer_patience_s = peer_patience_s, .host_of = {}});
}

TEST(HangReport, RanksThatDoTheSameAreOneLine) {
  std::vector<std::string> texts;
  for (const int rank : {3, 0, 2, 5}) texts.push_back(text_of({in_call(rank, 812, 61 + rank)}));
  RankState waiting = outside(1, "waiting for a minibatch", 601);
  waiting.stuck = true;
  waiting.stack = "read\n";
  const std::string below = merge_states({texts[0], texts[1], texts[2]}, 7);
  const HangReport report =
      hang_report(merge_states({below, texts[3], text_of({waiting}), "damaged", "{}", text_of({in_call(7, 1, 1)})}, 7),
                  {.ranks = 7, .peer_patience_s = 60, .host_of = {}});
  EXPECT_THAT(report.table, HasSubstr("  stuck  ranks 0,2-3,5 on vn[1-2]: training, after iteration 57, in allreduce "
                                      "(call 812), no progress for 66 s\n"));
  EXPECT_THAT(report.table, HasSubstr("  stuck  rank 1 on vn1: waiting for a minibatch, after iteration 57, "));
  EXPECT_THAT(report.table, HasSubstr("no answer from 4,6\n"));
  EXPECT_THAT(report.table, HasSubstr("  stack of rank 1:\n    read\n"));
  EXPECT_THAT(report.message,
              AllOf(HasSubstr("ranks 0-3,5 make no progress"), HasSubstr("rank 1 on vn1: waiting for")));
  EXPECT_TRUE(report.is_over);
}

TEST(HangReport, ARankThatHasLeftIsNamedWithTheCallThatLacksIt) {
  const HangReport report = report_of({in_call(0, 34, 4), gone(1, 33), in_call(2, 34, 4)}, 3);
  EXPECT_TRUE(report.is_over && report.has_left);
  EXPECT_EQ(report.table, "");
  EXPECT_THAT(report.message,
              HasSubstr("rank 1 has left main (status 0) while ranks 0,2 wait in allreduce (call 34): "));
  EXPECT_EQ(report_of({in_call(0, 34, 4), gone(1, 34), outside(2, "", 4)}, 3).message, "") << "it has made that call";
  EXPECT_EQ(report_of({outside(0, "validation", 500), gone(1, 33), gone(2, 33)}, 3).message, "") << "nobody waits";
  RankState other_group = in_call(0, 34, 4);
  other_group.ordinal = 2;
  EXPECT_EQ(report_of({other_group, gone(1, 33)}, 2).message, "") << "it is no member";
  RankState busy = gone(1, 33);
  busy.call = busy.operation = "allreduce";  // of a thread in the background
  EXPECT_EQ(report_of({in_call(0, 34, 4), busy}, 2).message, "");
}

TEST(HangReport, AMessageMayArriveAfterItsSenderHasLeft) {
  EXPECT_EQ(report_of({in_message(0, 1, 70, "recv"), gone(1, 33, 0.5)}, 2).has_left, false);
  const HangReport report = report_of({in_message(0, 1, 4, "recv"), gone(1, 33), gone(2, 33)}, 3);
  EXPECT_THAT(report.message, HasSubstr("rank 1 has left main (status 0) while rank 0 waits in recv (a message): "));
  EXPECT_TRUE(report_of({in_message(0, 1, 4, "send"), gone(1, 33)}, 2).is_over);
  EXPECT_FALSE(report_of({in_message(0, -1, 4, "recv"), gone(1, 33), outside(2, "", 4)}, 3).is_over);
  EXPECT_TRUE(report_of({in_message(0, -1, 4, "recv"), gone(1, 33), gone(2, 33)}, 3).is_over);
  EXPECT_FALSE(report_of({in_message(0, -1, 4, "recv"), gone(1, 33)}, 3).is_over) << "rank 2 has not answered";
}

TEST(HangReport, ACallWhoseRanksAreUnknownGoesOnByItself) {
  const auto creates = [](double seconds) { return in_message(0, -1, seconds, "create_communicator"); };
  EXPECT_EQ(report_of({creates(4), gone(1, 33)}, 2).message, "") << "it may be over this rank alone";
  EXPECT_FALSE(report_of({creates(4), in_call(1, 812, 61)}, 2).is_over);
  EXPECT_FALSE(report_of({creates(500), in_call(1, 812, 500)}, 2).is_over);
  EXPECT_FALSE(report_of({creates(700), outside(1, "validation", 1)}, 2).is_over);
  EXPECT_TRUE(report_of({creates(700), in_call(1, 812, 500)}, 2).is_over);
  EXPECT_TRUE(report_of({creates(700), gone(1, 33)}, 2).is_over);
  RankState spawned = in_call(0, 34, 70);
  spawned.leader = -1;
  EXPECT_FALSE(report_of({spawned, gone(1, 33)}, 2).is_over) << "it waits for a rank of another MPI_COMM_WORLD";
}

TEST(HangReport, CallsThatNeverMeetAreTheEnd) {
  const HangReport other = report_of({in_call(0, 35, 61), in_call(1, 35, 5, "barrier")}, 2);
  EXPECT_TRUE(other.is_over);
  EXPECT_THAT(other.message,
              AllOf(HasSubstr("in allreduce (call 35)"), HasSubstr("rank 1 on vn1: in barrier (call 35)")));
  EXPECT_FALSE(report_of({in_call(0, 35, 61), in_call(1, 35, 61, "first call in the background")}, 2).is_over);
  EXPECT_TRUE(report_of({in_message(0, 1, 61, "recv"), in_message(1, 0, 61, "recv")}, 2).is_over);
  EXPECT_TRUE(report_of({in_message(0, 1, 61, "send"), in_message(1, 0, 61, "send")}, 2).is_over);
  EXPECT_FALSE(report_of({in_message(0, 1, 61, "send"), in_message(1, 0, 61, "recv")}, 2).is_over) << "data travel";
  EXPECT_TRUE(report_of({in_message(0, 1, 61, "recv"), in_call(1, 812, 5)}, 2).is_over) << "a circle of two";
  RankState receives = in_message(0, 1, 61, "recv");
  receives.groups = {{0, 0, 1}, {0, 1, 812}};
  EXPECT_FALSE(report_of({receives, in_call(1, 812, 5), outside(2, "", 90)}, 3).is_over) << "rank 1 waits for rank 2";
}

TEST(HangReport, AMessageMayTravelWhileItsSenderIsInAnotherCall) {
  RankState barrier = in_call(1, 812, 50);
  EXPECT_TRUE(report_of({in_message(0, 1, 61, "send"), barrier}, 2).is_over);
  barrier.has_messages = true;  // of irecv()
  EXPECT_FALSE(report_of({in_message(0, 1, 61, "send"), barrier}, 2).is_over);
  EXPECT_FALSE(report_of({in_message(0, -1, 61, "recv"), barrier}, 2).is_over);
  barrier.seconds = 601;
  EXPECT_FALSE(report_of({in_message(0, 1, 590, "send"), barrier}, 2).is_over);
  EXPECT_TRUE(report_of({in_message(0, 1, 601, "send"), barrier}, 2).is_over);
  RankState left = gone(1, 33);
  left.has_messages = true;
  EXPECT_FALSE(report_of({in_message(0, 1, 61, "recv"), left}, 2).is_over);
}

TEST(HangReport, AMessageMayHaveArrivedBetweenTwoAnswers) {
  EXPECT_FALSE(report_of({in_message(0, 1, 61, "recv"), in_call(1, 812, 2)}, 2).is_over);
  EXPECT_TRUE(report_of({in_message(0, 1, 61, "recv"), in_call(1, 812, 4)}, 2).is_over);
  EXPECT_FALSE(report_of({in_message(0, 1, 61, "recv"), in_call(1, 812, 2), in_call(2, 812, 50)}, 3).is_over);
  EXPECT_FALSE(report_of({in_message(0, -1, 61, "recv"), gone(1, 33), gone(2, 33, 1)}, 3).is_over);
}

TEST(HangReport, WhoIsOutsideOfCallsIsWaitedFor) {
  for (const double seconds : {1.0, 60.0, 590.0}) {
    const HangReport waits = report_of({in_call(0, 812, 700), outside(1, "extension plot", seconds)}, 2);
    EXPECT_FALSE(waits.is_over) << seconds;
    EXPECT_THAT(waits.message, HasSubstr("may wait for rank 1 on vn1: extension plot"));
  }
  EXPECT_FALSE(report_of({in_call(0, 812, 700), outside(1, "", 1700)}, 2).is_over) << "a long index";
  EXPECT_TRUE(report_of({in_call(0, 812, 1900), outside(1, "", 1801)}, 2).is_over);
  EXPECT_FALSE(report_of({in_call(0, 812, 1700), outside(1, "", 5000)}, 2).is_over) << "not awaited for so long";
  RankState member = outside(2, "validation", 5);
  member.groups = {{0, 2, 33}};
  RankState waits = in_call(0, 34, 1900);
  waits.ordinal = 2;
  EXPECT_FALSE(report_of({waits, outside(1, "", 1801), member}, 3).is_over) << "nobody waits for rank 1";
  RankState between = in_message(2, 1, 5, "recv");
  between.groups = member.groups;
  EXPECT_TRUE(report_of({waits, outside(1, "", 1801), between}, 3).is_over) << "rank 0 does, by rank 2";
  EXPECT_FALSE(report_of({in_call(0, 812, 500), in_call(1, 812, 500)}, 2).is_over) << "all are in it";
  EXPECT_TRUE(report_of({in_call(0, 812, 601), in_call(1, 812, 601)}, 2).is_over);
  EXPECT_EQ(report_of({in_call(0, 812, 50), outside(1, "training", 5)}, 2).message, "");
}

TEST(HangReport, ACallOnADeviceThatAllHaveMadeIsOver) {
  RankState enqueued = in_call(0, 812, 700);
  enqueued.enqueued = true;
  EXPECT_EQ(report_of({enqueued, outside(1, "validation", 1)}, 2).is_over, false);
  RankState peer = outside(1, "validation", 1);
  peer.groups = enqueued.groups;
  EXPECT_EQ(report_of({enqueued, peer}, 2).message, "") << "it may work outside of calls for long";
  EXPECT_TRUE(report_of({enqueued, gone(1, 811)}, 2).is_over);
}

TEST(HangReport, WhoDoesNotAnswerIsTheSuspect) {
  HangContext job{.ranks = 3, .peer_patience_s = 300, .host_of = [](int) { return "vn7"; }};
  const auto with = [&](double seconds) {
    return hang_report(merge_states({text_of({in_call(0, 812, seconds)}), text_of({in_call(2, 812, seconds)})}, 3),
                       job);
  };
  EXPECT_FALSE(with(70).is_over) << "the peer monitor judges it";
  EXPECT_THAT(with(70).message,
              HasSubstr("ranks 0,2 make no progress (the table above says where each rank is); they may "
                        "wait for rank 1 on vn7, which does not answer: "));
  EXPECT_TRUE(with(601).is_over);
  const std::string validates =
      merge_states({text_of({in_call(0, 812, 700)}), text_of({outside(2, "validation", 1)})}, 3);
  EXPECT_FALSE(hang_report(validates, job).is_over) << "rank 2 goes on";
  job.is_cut_off = true;
  EXPECT_FALSE(with(601).is_over) << "it knows nothing of the others";
  EXPECT_TRUE(with(1801).is_over);
  job.peer_patience_s = 3600;
  EXPECT_FALSE(with(1801).is_over);
}

TEST(ActivityTest, StatesHaveLimitsOfTheirOwn) {
  EXPECT_GT(activity_now().limit_s, 1e9) << "nothing is watched outside of scopes";
  const ActivityScope training("training");
  note_iteration(3);
  EXPECT_EQ(activity_now().limit_s, work_patience_s());
  {
    const ActivityScope saving("writing a checkpoint");
    EXPECT_EQ(activity_now().state, "writing a checkpoint");
  }
  EXPECT_EQ(activity_now().state, "training");
  EXPECT_EQ(activity_now().iteration, 3);
  discount_standstill(std::chrono::seconds(-1000));
  EXPECT_GE(activity_now().silent_s, 1000);
  note_progress();
  EXPECT_LT(activity_now().silent_s, 100);
  EXPECT_GE(activity_now().limit_s, 5 * 1000) << "five times the longest";
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
