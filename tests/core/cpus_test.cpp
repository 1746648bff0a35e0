// CPUs by mask and by the cgroups' quota.
#include <cmath>

#include <gtest/gtest.h>
#include <sched.h>

#include <mn/core/cpus.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

namespace fs = std::filesystem;

class CpuQuota : public testing::Test {
 protected:
  void write(const fs::path& name, const std::string& text) const {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    test::write_text(path, text);
  }
  [[nodiscard]] double quota() const { return cpu_quota(folder_.path()); }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(CpuQuota, IsInfiniteWithoutCgroups) { EXPECT_TRUE(std::isinf(quota())); }

TEST_F(CpuQuota, OfTheSecondVersionIsTheLeastUpToTheRoot) {
  write("proc/self/cgroup", "0::/slurm/job_1/step_0\n");
  write("sys/fs/cgroup/slurm/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(quota()));
  write("sys/fs/cgroup/slurm/job_1/cpu.max", "250000 100000\n");
  write("sys/fs/cgroup/slurm/job_1/step_0/cpu.max", "800000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 2.5);
}

TEST_F(CpuQuota, OfAContainerIsThatOfItsRoot) {
  write("proc/self/cgroup", "0::/docker/of/the/host\n");
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 0.5);
}

TEST_F(CpuQuota, OfTheFirstVersion) {
  write("proc/self/cgroup", "5:memory:/a\n4:cpuacct,cpu:/kubepods/pod\n3:cpuset:/\n");
  write("sys/fs/cgroup/cpuacct,cpu/kubepods/pod/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpuacct,cpu/kubepods/pod/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(quota()));
  write("sys/fs/cgroup/cpuacct,cpu/kubepods/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpuacct,cpu/kubepods/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(quota(), 3);
}

TEST_F(CpuQuota, OfWhatCannotBeReadIsInfinite) {
  write("proc/self/cgroup", "0::/\nnonsense\n");
  write("sys/fs/cgroup/cpu.max", "0 0\n");
  EXPECT_TRUE(std::isinf(quota()));
}

TEST(CpuCount, FollowsTheMask) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(usable_cpus().front(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cpus().size(), 1U);
  EXPECT_EQ(cpu_count(), 1U);
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

}  // namespace
}  // namespace mn
