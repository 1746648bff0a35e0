// Keys sealed by munge, for a job of a user with any number on this node; and jobs with nodes that munge divides.
#include "launcher/exchange/munge.hpp"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/error.hpp>

#include "exchange_jobs.hpp"
#include "fake_munge.hpp"

namespace mn::launcher {
namespace {

using namespace exchange_jobs;
using ::testing::HasSubstr;

class MungeTest : public ::testing::Test {
 protected:
  void SetUp() override { mn_fake_munge_user = static_cast<int>(geteuid()); }
  void TearDown() override { mn_fake_munge_user = kNoMunge; }
};

TEST_F(MungeTest, BothEndsOfAJobComeToOneKeyAndNoOtherJobDoes) {
  MungeKeys listener("Slurm step 7.0", false);
  MungeKeys caller("Slurm step 7.0", false);
  MungeKeys other("Slurm step 7.1", false);
  const auto offer = listener.offer();
  EXPECT_EQ(caller.accept(offer.sealed), offer.key);
  EXPECT_NE(other.accept(offer.sealed), offer.key) << "of the same user";
  EXPECT_NE(caller.offer().key, offer.key);
  EXPECT_THAT(caller.origin(), HasSubstr("munge"));
}

TEST_F(MungeTest, TheUserMayHaveAnotherNumberOutsideOfAContainer) {
  mn_fake_munge_user = static_cast<int>(geteuid()) + 1000;
  MungeKeys listener("job", false);
  MungeKeys caller("job", false);
  const auto offer = listener.offer();
  EXPECT_EQ(caller.accept(offer.sealed), offer.key);
}

TEST_F(MungeTest, AnotherUsersCredentialIsRejected) {
  MungeKeys caller("job", false);
  EXPECT_NE(caller.offer().sealed, "");
  ++mn_fake_munge_user;
  const std::string foreign = MungeKeys("job", false).offer().sealed;
  EXPECT_THROW(static_cast<void>(caller.accept(foreign)), CommError) << "for others to read";
  const std::string open = std::to_string(mn_fake_munge_user) + " -1 " + std::string(64, 'a');
  EXPECT_THROW(static_cast<void>(caller.accept(open)), CommError) << "for all to read";
}

TEST_F(MungeTest, WithoutMungeTheKeyIsTheJobsAndSaysSo) {
  mn_fake_munge_user = kNoMunge;
  MungeKeys listener("job and secret", true);
  MungeKeys caller("job and secret", true);
  MungeKeys other("job", false);
  const auto offer = listener.offer();
  EXPECT_EQ(offer.sealed, "");
  EXPECT_EQ(caller.accept(""), offer.key);
  EXPECT_NE(other.offer().key, offer.key);
  EXPECT_THAT(caller.origin(), HasSubstr("MN_LAUNCH_KEY"));
  EXPECT_THAT(other.origin(), HasSubstr("which other users of the cluster can guess"));
}

/// Nodes whose leaders have the step's key by munge; node n's user is users[n]. Rank `slow` starts last.
std::vector<Ending> with_munge(const std::vector<int>& users, int ranks_of_node, int slow = -1) {
  Job job = job_of(simulated::in_turn(static_cast<int>(users.size()) * ranks_of_node, static_cast<int>(users.size())),
                   milliseconds(1'000'000));
  job.keys = [name = job.name] { return std::make_shared<MungeKeys>(name, false); };
  return simulated::run(0, job.size(), [&](int rank) {
    mn_fake_munge_user = users[static_cast<std::size_t>(job.node_of(rank))];
    if (rank == slow) std::this_thread::sleep_for(milliseconds(1000));
    return simulated::end_of(job, rank);
  });
}

TEST(MungedJobTest, WhereMungeKnowsAllNodesOrNoneTheJobStarts) {
  for (const int user : {kNoMunge, 7}) expect_exit(with_munge({user, user, user}, 2), 0);
}

TEST(MungedJobTest, NodesThatMungeDividesEndAtOnceWithOneLine) {
  const std::string here = ": it cannot prove that it is of this job: munge answers on ";
  const std::string there = ": it cannot prove that it is of this job: munge does not answer on ";
  const auto expect_line = [](const std::vector<Ending>& endings, const std::string& text) {
    expect_exit(endings, kExitCheckFailed);
    ASSERT_EQ(lines_of(endings).size(), 1U);
    EXPECT_THAT(endings[0].text, HasSubstr(text));
  };
  expect_line(with_munge({7, kNoMunge}, 2), "mnlaunch: a rank on vn2" + here);
  expect_line(with_munge({kNoMunge, 7}, 1), "mnlaunch: a rank on vn2" + there);
  expect_line(with_munge({7, 8, 7}, 2), "mnlaunch: a rank on vn2" + here);
  // Node 17 is below node 1.
  std::vector<int> users(18, 7);
  users[17] = kNoMunge;
  expect_line(with_munge(users, 1), "mnlaunch: a rank on vn18" + here);
  users[17] = 7;
  users[1] = kNoMunge;
  // The node stays until node 17 has found the node: the proof for node 17 is as weak as for the root.
  expect_line(with_munge(users, 1, 17), "mnlaunch: a rank on vn2" + here);
}

}  // namespace
}  // namespace mn::launcher
