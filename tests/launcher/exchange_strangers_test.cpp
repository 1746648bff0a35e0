// Strangers in a job's way: processes on the job's ports and names, firewalls, ranks with a wrong key.
#include <atomic>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/exit_codes.hpp>
#include <mn/core/net/caller.hpp>

#include "exchange_jobs.hpp"
#include "simulated_job.hpp"

namespace mn::launcher {
namespace {

using namespace exchange_jobs;
using ::testing::HasSubstr;

/// Calls all listeners of the job, again and again, and sends `bytes`.
void bother(const Job& job, const std::string& bytes, const std::atomic<bool>& stop) {
  std::vector<Endpoint> endpoints;
  for (int rank = 0; rank < job.node_count(); ++rank) {
    const Group group = simulated::group_of(job, rank);
    for (const auto& endpoint : endpoints_of_leader(group)) endpoints.push_back(endpoint);
    for (const auto port : ports_of(group, group.node)) endpoints.push_back({"127.0.0.1", port});
  }
  std::vector<Fd> open;
  while (!stop && open.size() < 200) {
    for (const auto& endpoint : endpoints) {
      Fd socket = begin_connection(endpoint);
      if (socket) send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (socket) open.push_back(std::move(socket));
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  while (!stop) std::this_thread::sleep_for(milliseconds(1));
}

TEST(ExchangeTest, StrangersOnItsPortsDoNotDisturbAJob) {
  const Job job = job_of(simulated::in_turn(8, 4));
  std::string call("\x2c\0\0\0mn's greeting no. 1\n\1\0\0\0\0\0\0\0", 32);
  call += std::string(16, 'n') + std::string("\x20\0\0\0", 4) + std::string(32, 'p');  // with a wrong proof
  for (const std::string& bytes : {std::string(), std::string(5000, 'z'), std::string("\xff\xff\xff\x7f"), call}) {
    std::atomic<bool> stop = false;
    std::thread stranger([&] { bother(job, bytes, stop); });
    const auto endings = simulated::run(job);
    stop = true;
    stranger.join();
    expect_exit(endings, 0);
    EXPECT_EQ(lines_of(endings).size(), 0U);
  }
}

TEST(ExchangeTest, AGivenRangeHasTheFirstPortsOfANode) {
  const Job job = job_of(simulated::in_turn(6, 3));
  Group group = simulated::group_of(job, 0);
  group.ports = {{40000, 40003}};
  for (int node = 0; node < 3; ++node) {
    const auto ports = ports_of(group, node);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_TRUE(ports.at(i) >= 40000 && ports[i] <= 40003) << ports[i];
  }
}

TEST(ExchangeTest, WhereOthersHaveAllPortsOfTheRangeTheNodesMeetAllTheSame) {
  const Job job = job_of(simulated::in_turn(6, 3), kShortPatience);
  std::vector<Fd> taken;
  for (std::uint16_t port = 42000; port < 42004; ++port) taken.push_back(listen_on_port(port));
  const auto endings = simulated::run(0, job.size(), [&](int rank) {
    Options options;
    options.ports = {{42000, 42003}};
    return simulated::end_of(job, rank, options);
  });
  expect_exit(endings, 0);
}

TEST(ExchangeTest, OtherProcessesMayHaveAllPortsOfANode) {
  const Job job = job_of(simulated::in_turn(6, 3));
  for (const int node : {0, 2}) {
    std::vector<Fd> taken;
    for (const auto port : ports_of(simulated::group_of(job, node), node)) taken.push_back(listen_on_port(port));
    const auto endings = simulated::run(job);
    expect_exit(endings, 0);
    EXPECT_EQ(lines_of(endings).size(), 0U) << "node " << node;
  }
}

/// A process of a second user, listening on `names` during the object's life.
class Squatter {
 public:
  explicit Squatter(const std::vector<std::string>& names) {
    int ends[2];
    if (pipe(ends) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      std::vector<Fd> taken;
      if (setuid(65534) != 0) _exit(1);
      for (const auto& name : names) taken.push_back(listen_on_name(name));
      if (write(ends[1], "1", 1) != 1) _exit(1);
      while (true) pause();
    }
    char ready = 0;
    if (read(ends[0], &ready, 1) != 1) ADD_FAILURE() << "no squatter";
    close(ends[0]);
    close(ends[1]);
  }
  ~Squatter() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Squatter(const Squatter&) = delete;
  Squatter& operator=(const Squatter&) = delete;

 private:
  pid_t process_ = -1;
};

TEST(ExchangeTest, OthersMayHaveItsFirstPortsAndNames) {
  if (geteuid() != 0) GTEST_SKIP() << "cannot be another user";
  const Job job = job_of(simulated::in_turn(6, 3));
  const Group group = simulated::group_of(job, 0);
  const Fd port = listen_on_port(ports_of(group, 0).front());
  const Squatter squatter({names_of(group).front()});
  ASSERT_TRUE(port);
  expect_exit(simulated::run(job), 0);
}

TEST(ExchangeTest, ARankThatComesTwiceEndsAllAtOnce) {
  // The root, a leader, a member. A second rank of each node comes late.
  at_once<int>({0, 1, 2}, [](int twice) {
    const Job job = job_of(simulated::in_turn(6, 2), milliseconds(1'000'000));
    const auto endings = simulated::run(0, job.size() + 1, [&](int rank) {
      if (rank == 4 || rank == 5) std::this_thread::sleep_for(milliseconds(500));
      return simulated::end_of(job, rank == job.size() ? twice : rank);
    });
    expect_exit(endings, kExitCheckFailed);
    EXPECT_THAT(endings[twice == 0 && endings[0].text.empty() ? 6 : 0].text,
                HasSubstr("rank " + std::to_string(twice) + " on "));
    EXPECT_EQ(lines_of(endings).size(), 1U) << twice;
    EXPECT_THAT(lines_of(endings).front(), HasSubstr(": another process of this node has the same number; "));
  });
}

TEST(ExchangeTest, OneThatComesTwiceAndSaysNothingEndsAllToo) {
  // Rank 3 does not come before a second process of rank 2 has called.
  const Job job = job_of({0, 0, 0, 0});
  const Group group = simulated::group_of(job, 2);
  SharedKey key(key_of_text("within a node: " + group.job));
  const auto late = [&](const auto&) {
    std::this_thread::sleep_for(milliseconds(500));
    Caller caller([&] { return endpoints_of_leader(group); }, Call{2, 0}, key);
    std::unique_ptr<Channel> channel;
    while (!channel) {
      caller.step(Clock::now());
      for (Channel* attempt : caller.attempts()) attempt->progress();
      channel = caller.take_verified();
    }
    channel->open();
    channel->flush();
    std::this_thread::sleep_for(milliseconds(200));
    return simulated::end_of(job, 3);
  };
  const auto endings = run_with(job, 3, late);
  expect_exit(endings, kExitCheckFailed);
  EXPECT_THAT(endings[0].text, HasSubstr("a rank on ")) << "which one is not known";
  EXPECT_THAT(endings[0].text, HasSubstr("another process of this node has the same number"));
}

/// A rank claims to be the first of the node.
Ending comes_first(const Job& job, int rank) {
  const Options options;
  Group group = simulated::group_of(job, 0);
  const ThisRank self{
      .options = options, .surroundings = {}, .program_exit = 0, .here = simulated::placement_of(job, group, rank)};
  Exchange exchange(std::move(group));
  const Verdict verdict = simulated::rounds_of(job, self, exchange);
  exchange.leave();
  return {.exit_code = verdict.exit_code, .text = verdict.complaints, .at = {}};
}

TEST(ExchangeTest, OfTwoFirstRanksOneSpeaksWhicheverComesFirst) {
  for (const int first : {0, 1}) {
    const Job job = job_of({0, 0}, milliseconds(1'000'000));
    const auto endings = simulated::run(0, job.size(), [&](int rank) {
      if (rank != first) std::this_thread::sleep_for(milliseconds(300));
      return comes_first(job, rank);
    });
    expect_exit(endings, kExitCheckFailed);
    ASSERT_EQ(lines_of(endings).size(), 1U) << "rank " << first << " came first";
    EXPECT_THAT(lines_of(endings).front(), HasSubstr("another process of this node has the same number; "));
  }
}

TEST(ExchangeTest, ASecondJobOfTheNameIsToldToEachOfThem) {
  const Job job = job_of({0, 0, 0}, milliseconds(1'000'000));
  const auto endings = simulated::run(0, 2 * job.size(), [&](int process) {
    // The first ranks of both jobs come first; the remaining ranks follow singly.
    std::this_thread::sleep_for(milliseconds(100 * (process % job.size())));
    return simulated::end_of(job, process % job.size());
  });
  expect_exit(endings, kExitCheckFailed);
  for (const int zero : {0, 3}) {
    EXPECT_THAT(endings[static_cast<std::size_t>(zero)].text,
                HasSubstr("mnlaunch: another job of this name runs on this node at once; "));
  }
  EXPECT_EQ(lines_of(endings).size(), 2U);
}

TEST(ExchangeTest, AFirstRankBesideOneThatHangsSaysSo) {
  const Job job = job_of(simulated::in_turn(4, 2), kShortPatience);
  const Fd first = listen_on_name(names_of(simulated::group_of(job, 1)).front());
  const auto endings = simulated::run(job);
  expect_exit(endings, kExitCheckFailed);
  EXPECT_THAT(
      endings[0].text,
      HasSubstr("error [tasks] vn2: ranks 1, 3 of 4 did not arrive in 2 s, or only the first of them on each node"));
  EXPECT_THAT(endings[1].text,
              HasSubstr("another process is the first rank of this node already, and gives no answer"));
}

TEST(ExchangeTest, WhoListensOnOtherPortsIsToldSo) {
  const Job job = job_of(simulated::in_turn(5, 3), milliseconds(1'000'000));
  for (const int odd : {0, 1, 2}) {
    const auto endings = simulated::run(0, job.size(), [&](int rank) {
      Options options;
      if (job.node_of(rank) == odd) options.ports = {{41000, 41999}};
      return simulated::end_of(job, rank, options);
    });
    expect_exit(endings, kExitUsage);
    EXPECT_THAT(endings[0].text, HasSubstr("give all ranks the same options")) << odd;
    EXPECT_EQ(lines_of(endings).size(), 1U) << odd;
  }
}

TEST(ExchangeTest, WhereAnotherUserHasAllNamesOfANodeAllEndAtOnceWithOneLine) {
  if (geteuid() != 0) GTEST_SKIP() << "cannot be another user";
  const Job job = job_of(simulated::in_turn(6, 2), milliseconds(1'000'000));
  const Squatter squatter(names_of(simulated::group_of(job, 1)));
  const auto endings = simulated::run(job);
  expect_exit(endings, kExitCheckFailed);
  EXPECT_THAT(endings[0].text, HasSubstr("mnlaunch: rank 1 on "));
  EXPECT_THAT(endings[0].text, HasSubstr("other processes have the names on which the ranks of this node connect"));
  EXPECT_EQ(lines_of(endings).size(), 1U);
}

/// A rank whose calls lead to `address`.
Ending calls_only(const Job& job, int rank, const std::string& address, const Key& key) {
  const Options options;
  Group group = simulated::group_of(job, rank);
  group.addresses = [&](int) { return std::vector<std::string>{address}; };
  group.keys = std::make_shared<SharedKey>(key);
  const ThisRank self{
      .options = options, .surroundings = {}, .program_exit = 0, .here = simulated::placement_of(job, group, rank)};
  try {
    Exchange exchange(std::move(group));
    const Verdict verdict = simulated::rounds_of(job, self, exchange);
    exchange.leave();
    return {.exit_code = verdict.exit_code, .text = verdict.complaints, .at = {}};
  } catch (const Error& error) {
    return {.exit_code = error.exit_code(), .text = error.what(), .at = {}};
  }
}

TEST(ExchangeTest, AFirewallInOneDirectionIsAFinding) {
  const Job job = job_of(simulated::in_turn(3, 3));
  const auto blocked = [&](const auto&) { return calls_only(job, 2, "255.255.255.255", key_of_text(job.name)); };
  const auto endings = run_with(job, 2, blocked);
  expect_exit(endings, kExitCheckFailed);
  EXPECT_THAT(endings[0].text, HasSubstr("error [connect] vn3: no TCP connection to vn1 (255.255.255.255 port "));
  EXPECT_EQ(lines_of(endings).size(), 1U);
}

TEST(ExchangeTest, WhoHasAnotherKeyIsNotOfTheJob) {
  const Job job = job_of(simulated::in_turn(3, 3), kShortPatience);
  const auto stranger = [&](const auto&) { return calls_only(job, 2, "127.0.0.1", key_of_text("another")); };
  const auto endings = run_with(job, 2, stranger);
  expect_exit(endings, kExitCheckFailed);
  EXPECT_THAT(endings[0].text, HasSubstr("error [tasks] vn3: rank 2 of 3 did not arrive in 2 s"));
  EXPECT_THAT(endings[2].text, HasSubstr("no connection to mnlaunch on vn1 (127.0.0.1 port "));
  EXPECT_THAT(endings[2].text, HasSubstr("it is not of this job"));
  EXPECT_EQ(endings[1].text, "");
}

}  // namespace
}  // namespace mn::launcher
