// The peer monitor alone: ranks are threads of this process, MPI a table.
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/text.hpp>
#include <mn/job/peer_monitor.hpp>
#include <mn/job/prepare.hpp>

#include "tests/job/monitored_ranks.hpp"

namespace mn {
namespace {

using namespace std::chrono_literals;
using test::Ranks;
using ::testing::HasSubstr;

TEST(PeerMonitor, AnOrderlyEndIsNoLoss) {
  Ranks ranks(11, 2000ms);
  std::this_thread::sleep_for(2500ms);  // longer than the silence that would count
  for (int r = 0; r < 11; ++r) EXPECT_EQ(ranks[r].unreachable(), "");
  ranks.leave();
  EXPECT_TRUE(ranks.all_quiet());
}

TEST(PeerMonitor, TheParentReportsALostChild) {
  Ranks ranks(4);
  ranks.cut(2);
  EXPECT_THAT(ranks.loss(0).value_or("nothing"), HasSubstr("lost rank 2 on host here: its process died"));
}

TEST(PeerMonitor, InADeepTreeTheLeafsParentReports) {
  Ranks ranks(12);
  ranks.cut(10);
  EXPECT_THAT(ranks.loss(1).value_or("nothing"), HasSubstr("lost rank 10 "));
}

TEST(PeerMonitor, TheLowestChildReportsTheRootAtOnceTheOthersLater) {
  Ranks ranks(3);
  ranks.cut(0);
  EXPECT_THAT(ranks.loss(1).value_or("nothing"), HasSubstr("lost rank 0 "));
  EXPECT_THAT(ranks.loss(2).value_or("nothing"), HasSubstr("lost rank 0 "));
}

TEST(PeerMonitor, ALossSilencesRanksThatItCutsOff) {
  Ranks ranks(74);
  ranks.cut(1);  // the parent of 9, which is 73's
  EXPECT_THAT(ranks.loss(0).value_or("nothing"), HasSubstr("lost rank 1 "));
  EXPECT_TRUE(ranks.become_silent(74)) << ranks.silent();
}

TEST(PeerMonitor, AReportedEndReachesAllWithoutAMessage) {
  Ranks ranks(12);
  ranks[10].announce_report();
  for (int r = 0; r < 12; ++r) {
    if (r != 10) {
      EXPECT_EQ(ranks.loss(r), "") << "rank " << r;
    }
  }
}

TEST(PeerMonitor, AnAnnouncementReturnsWhenAllOthersAreSilent) {
  for (const int reporter : {0, 3, 10, 11}) {
    Ranks ranks(12);
    ranks[reporter].announce_report();
    EXPECT_EQ(ranks.silent(), 11) << "rank " << reporter;
  }
}

TEST(PeerMonitor, AnAnnouncementDoesNotWaitForAPeerThatDoesNotAnswer) {
  Ranks ranks(2);
  const int child = ranks[1].links().front().socket;
  const int silent = open("/dev/null", O_RDWR);
  const int kept = dup(child);  // the connection stays open, and nobody reads from it
  ASSERT_GE(dup2(silent, child), 0);
  const auto start = std::chrono::steady_clock::now();
  ranks[0].announce_report();
  EXPECT_GE(std::chrono::steady_clock::now() - start, kReportPatience);
  close(kept);
  close(silent);
}

TEST(PeerMonitor, OneOfThoseThatFailReports) {
  Ranks ranks(12);
  std::vector<std::future<bool>> answers;
  for (const int rank : {3, 10, 11}) {
    answers.push_back(std::async(std::launch::async, [&ranks, rank] {
      if (!ranks[rank].may_report()) return false;
      std::this_thread::sleep_for(100ms);
      ranks[rank].announce_report();
      return true;
    }));
  }
  EXPECT_EQ(std::count_if(answers.begin(), answers.end(), [](auto& answer) { return answer.get(); }), 1);
}

TEST(PeerMonitor, WithoutAnAnswerARankReports) {
  Ranks ranks(2);
  const int parent = ranks[1].links().front().socket;
  const int silent = open("/dev/null", O_RDWR);
  const int kept = dup(parent);
  ASSERT_GE(dup2(silent, parent), 0);  // sent bytes get lost
  EXPECT_TRUE(ranks[1].may_report());
  close(kept);
  close(silent);
}

TEST(PeerMonitor, WithoutAnAnswerAfterALossItsNeighborsReportFirst) {
  Ranks ranks(3);
  ranks.cut(0);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(ranks[2].may_report());
  EXPECT_GE(std::chrono::steady_clock::now() - start, 2000ms + 300ms) << "rank 1 reports the loss and ends the job";
}

TEST(PeerMonitor, TerminationIsReportedOnlyIfTheOthersLiveOn) {
  Ranks ranks(2);
  const auto start = std::chrono::steady_clock::now();
  const PeerByte terminated = PeerByte::kTerminated;
  ASSERT_EQ(send(ranks[1].links().front().socket, &terminated, 1, MSG_NOSIGNAL), 1);
  ranks.cut(1);
  EXPECT_THAT(ranks.loss(0).value_or("nothing"), HasSubstr("lost rank 1 on host here: it was terminated by a signal"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 300ms);
}

TEST(PeerMonitor, SilenceIsALoss) {
  // Rank 1 connects by the rules and then sends no heartbeat.
  Ranks ranks(2, 400ms);
  const int child = ranks[1].links().front().socket;
  const int silent = open("/dev/null", O_WRONLY);
  const int kept = dup(child);  // the connection stays open
  ASSERT_GE(dup2(silent, child), 0);
  EXPECT_THAT(ranks.loss(0).value_or("nothing"), HasSubstr("lost rank 1 on host here: no sign of life for"));
  close(kept);
  close(silent);
}

TEST(PeerMonitor, ARankThatLeavesIsKnownToAll) {
  Ranks ranks(12);
  for (const int rank : {10, 0}) ranks[rank].leave();
  for (int r = 0; r < 12; ++r) {
    const int others = r == 10 || r == 0 ? 1 : 2;
    for (int i = 0; i < 6000 && ranks[r].ranks_left() < others; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(ranks[r].ranks_left(), others) << "rank " << r;
  }
  EXPECT_TRUE(ranks.all_quiet());
}

TEST(PeerMonitor, ALargeAnswerWaitsForAParentThatIsBusy) {
  std::promise<std::size_t> bytes;
  const auto survey_of = [&](int rank) {
    PeerSurvey survey;
    survey.own = [rank] {
      if (rank == 0) std::this_thread::sleep_for(1500ms);
      return std::string(rank == 0 ? 1 : 1'000'000, 'x');
    };
    survey.merge = [](const auto& texts) { return join(texts, ""); };
    survey.on_result = [&](const std::string& text) { bytes.set_value(text.size()); };
    return survey;
  };
  Ranks ranks(2, 4000ms, 0, "", survey_of);
  const int size = 20'000;  // less than the answer
  setsockopt(ranks[1].links()[0].socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  setsockopt(ranks[0].links()[0].socket, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  ranks[1].start_survey();
  EXPECT_EQ(bytes.get_future().get(), 1'000'001);
  ranks.leave();
  EXPECT_TRUE(ranks.all_quiet());
}

TEST(PeerMonitor, StrangersHoldUpNobody) {
  std::string call("\x2c\0\0\0mn's greeting no. 1\n\1\0\0\0\0\0\0\0", 32);
  call += std::string(16, 'n') + std::string("\x20\0\0\0", 4) + std::string(32, 'p');  // with a wrong proof
  for (const std::string& words : {std::string(), std::string(5000, 'z'), std::string("\xff\xff\xff\x7f"), call}) {
    Ranks ranks(4, 2000ms, 300, words);
    for (int r = 0; r < 4; ++r) EXPECT_EQ(ranks[r].unreachable(), "");
  }
}

/// Management networks stall for seconds, so the default is long; a process's end is noticed at once.
TEST(PeerMonitor, AMinuteOfSilenceCountsAsALoss) { EXPECT_EQ(peer_timeout(), 60s); }

TEST(PeerMonitor, LeavesNoThreadsOrDescriptors) {
  const auto count = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  };
  { const Ranks warm_up(3); }
  const auto descriptors = count("/proc/self/fd");
  const auto threads = count("/proc/self/task");
  for (int i = 0; i < 50; ++i) const Ranks ranks(3);
  EXPECT_EQ(count("/proc/self/fd"), descriptors);
  EXPECT_EQ(count("/proc/self/task"), threads);
}

}  // namespace
}  // namespace mn
