// Memory by the machine and by cgroups.
#include <gtest/gtest.h>

#include <mn/core/host_memory.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMib = 1 << 20;

class MemoryLimit : public testing::Test {
 protected:
  MemoryLimit() { write("proc/meminfo", "MemTotal:       16384 kB\nMemFree:        8 kB\n"); }
  void write(const fs::path& name, const std::string& text) const {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    test::write_text(path, text);
  }
  [[nodiscard]] std::int64_t limit() const { return memory_limit(folder_.path()); }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(MemoryLimit, IsTheMachinesWithoutCgroups) {
  EXPECT_EQ(limit(), 16 * kMib);
  write("proc/self/cgroup", "0::/\nnonsense\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(limit(), 16 * kMib);
}

TEST_F(MemoryLimit, OfTheSecondVersionIsTheLeastUpToTheRoot) {
  write("proc/self/cgroup", "0::/slurm/job_1/step_0\n");
  write("sys/fs/cgroup/slurm/job_1/memory.max", "8388608\n");
  write("sys/fs/cgroup/slurm/job_1/step_0/memory.max", "12582912\n");
  EXPECT_EQ(limit(), 8 * kMib);
}

TEST_F(MemoryLimit, OfTheFirstVersion) {
  write("proc/self/cgroup", "5:memory:/pod\n4:cpuacct,cpu:/other\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/cpuacct,cpu/other/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(limit(), 16 * kMib);
  write("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "4194304\n");
  EXPECT_EQ(limit(), 4 * kMib);
}

TEST(MemoryOfARank, IsAPartOfThisMachines) {
  EXPECT_GE(memory_of_rank(), 16 * kMib);
  EXPECT_LE(memory_of_rank(), memory_limit());
}

}  // namespace
}  // namespace mn
