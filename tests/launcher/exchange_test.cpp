// The exchange of whole jobs, whose ranks are threads: all agree, with any fault of a single rank.
#include "launcher/exchange/exchange.hpp"

#include <atomic>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mn/core/exit_codes.hpp>

#include "exchange_jobs.hpp"
#include "launcher/exchange/group.hpp"
#include "simulated_job.hpp"

namespace mn::launcher {
namespace {

using namespace exchange_jobs;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class ShapeTest : public ::testing::TestWithParam<std::vector<int>> {};

/// Whether all nodes have as many ranks; the remaining ranks get a warning.
bool is_even(const Job& job) {
  std::vector<int> counts(static_cast<std::size_t>(job.node_count()), 0);
  for (const int node : job.nodes) ++counts[static_cast<std::size_t>(node)];
  return std::ranges::min(counts) == std::ranges::max(counts);
}

/// Rank 0's lines, except the warning of uneven nodes.
std::string said(const Job& job, const std::vector<Ending>& endings) {
  const std::string& text = endings[0].text;
  return is_even(job) || text.find("[distribution]") == text.npos ? text : text.substr(text.find('\n') + 1);
}

TEST(ExchangeTest, AConnectionThatItsPeerHasEndedStaysAsAnEndedOne) {
  const Job job = job_of({0, 0});
  std::atomic<int> ended = 0;
  simulated::run(0, 2, [&](int rank) {
    {
      Exchange exchange(simulated::group_of(job, rank));
      exchange.leave();
      while (rank == 0 && ended == 0) std::this_thread::sleep_for(milliseconds(1));
      if (rank == 0) exchange.leave();  // notices
      const auto kept = exchange.duplicate_connections();
      EXPECT_EQ(kept.size(), 1u);
      char byte = 0;
      if (rank == 0 && !kept.empty()) {
        EXPECT_EQ(recv(kept[0].second.get(), &byte, 1, MSG_DONTWAIT), 0);
      }
    }
    ++ended;
    return Ending{};
  });
}

TEST_P(ShapeTest, HealthyRanksStartAndAreSilent) {
  const Job job = job_of(GetParam());
  const auto endings = simulated::run(job);
  expect_exit(endings, 0);
  EXPECT_EQ(said(job, endings), "");
  EXPECT_EQ(lines_of(endings).size(), is_even(job) ? 0U : 1U);
}

TEST_P(ShapeTest, TheLastRanksFailureIsTheVerdictOfAllAndRankZeroSaysIt) {
  Job job = job_of(GetParam());
  const int last = job.size() - 1;
  job.prepare = [&](int rank) {
    if (rank == last) throw UsageError("--output: cannot write there");
  };
  const auto endings = simulated::run(job);
  expect_exit(endings, kExitUsage);
  EXPECT_THAT(said(job, endings),
              MatchesRegex("mnlaunch: rank " + std::to_string(last) + " on [^ ]*: --output: cannot write there\n"));
  EXPECT_EQ(lines_of(endings).size(), 1U);
}

TEST_P(ShapeTest, AFindingOnOneNodeStopsAllAndRankZeroSaysIt) {
  Job job = job_of(GetParam());
  const auto facts = job.node_facts;
  job.node_facts = [facts, last = job.node_count() - 1](int node) {
    NodeFacts of_node = facts(node);
    if (node == last) of_node.system.shm.free_mib = 1;
    return of_node;
  };
  const auto endings = simulated::run(job);
  expect_exit(endings, kExitCheckFailed);
  EXPECT_THAT(endings[0].text, HasSubstr("error [shm] vn" + std::to_string(job.node_count()) + ": "));
  EXPECT_EQ(lines_of(endings).size(), 1U);
}

TEST_P(ShapeTest, FactsThatCannotBeReadOnOneRankStopAll) {
  Job job = job_of(GetParam());
  const auto facts = job.rank_facts;
  job.rank_facts = [&, last = job.size() - 1](int rank) {
    if (rank == last) throw DataError("the machine's topology is damaged");
    return facts(rank);
  };
  const auto endings = simulated::run(job);
  expect_exit(endings, 1);
  EXPECT_THAT(endings[0].text, HasSubstr(": the machine's topology is damaged\n"));
  EXPECT_EQ(lines_of(endings).size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ShapeTest,
                         ::testing::Values(simulated::in_blocks({1}), simulated::in_blocks({2}),
                                           simulated::in_blocks({5}), simulated::in_blocks({1, 1}),
                                           simulated::in_blocks({2, 1, 3}), simulated::in_turn(12, 5),
                                           simulated::in_turn(40, 20), simulated::in_blocks(std::vector<int>(35, 1)),
                                           simulated::in_blocks(std::vector<int>(4, 32))));

TEST(ExchangeTest, RankZeroNeedNotBeOnTheRootsNode) {
  Job job = job_of({1, 0, 1, 2});
  job.prepare = [](int rank) {
    if (rank == 3) throw UsageError("no");
  };
  const auto endings = simulated::run(job);
  expect_exit(endings, kExitUsage);
  EXPECT_THAT(said(job, endings), MatchesRegex("mnlaunch: rank 3 on [^ ]*: no\n"));
  EXPECT_EQ(lines_of(endings).size(), 1U);
}

/// Comes with the job's key as a node's leader, then sends `bytes`.
Ending sends(const Job& job, int rank, const std::string& bytes, const std::function<void()>& wait_for_others) {
  const Group group = simulated::group_of(job, rank);
  const Call call{static_cast<std::uint32_t>(group.node), static_cast<std::uint32_t>(kNodeTree.parent_of(group.node))};
  Caller caller([&] { return endpoints_of_node(group, kNodeTree.parent_of(group.node)); }, call, *group.keys);
  std::unique_ptr<Channel> channel;
  while (!(channel = caller.take_verified())) {
    caller.step(Clock::now());
    for (Channel* attempt : caller.attempts()) attempt->progress();
    std::this_thread::sleep_for(milliseconds(1));
  }
  channel->open();
  while (!channel->flush()) continue;
  EXPECT_EQ(send(channel->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  wait_for_others();  // the process does not end: its message is the reason
  return {};
}

TEST(ExchangeTest, ARankThatSendsGarbageCountsAsEnded) {
  const Job job = job_of(simulated::in_turn(5, 5), milliseconds(1'000'000));
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n") + std::string(100, 'x'),
        std::string("\x05\0\0\0RRRRR", 9) + std::string(32, '\0'), std::string("\xff\xff\xff\xff", 4)}) {
    const auto endings = run_with(job, 3, [&](const auto& wait) { return sends(job, 3, garbage, wait); });
    expect_exit(endings, kExitCheckFailed, {3});
    EXPECT_THAT(endings[0].text, HasSubstr("error [tasks] vn4: rank 3 of 5 ended before the start, or sent what no"));
  }
}

TEST(ExchangeTest, WhereNobodyListensTheNextEndpointIsTriedAtOnce) {
  std::uint16_t port = 20000;
  Fd listener;
  while (!(listener = listen_on_port(port))) ++port;
  std::uint16_t closed = port + 1;
  while (!listen_on_port(closed)) ++closed;
  SharedKey key(key_of_text("test"));
  Caller caller([&] { return std::vector<Endpoint>{{"127.0.0.1", closed}, {"127.0.0.1", port}}; }, Call{1, 0}, key);
  const Deadline now = Clock::now();  // stands still: no head start ends
  Fd connection;
  for (const auto end = Clock::now() + milliseconds(20000); !connection && Clock::now() < end;) {
    caller.step(now);
    for (Channel* attempt : caller.attempts()) attempt->progress();
    connection = accept_waiting(listener);
  }
  EXPECT_TRUE(connection);
}

}  // namespace
}  // namespace mn::launcher

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;  // all ranks are in one process
  setrlimit(RLIMIT_NOFILE, &files);
  return RUN_ALL_TESTS();
}
