// Keys that munge seals: for one job of one user, whatever number that user has here.
#include "launcher/exchange/munge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/error.hpp>

#include "fake_munge.hpp"

namespace mn::launcher {
namespace {

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

}  // namespace
}  // namespace mn::launcher
