// Cases that checks let pass, and how findings are put together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "healthy.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CheckCasesTest, TheOddNodesAreNamedAsAHostList) {
  auto job = healthy_job();
  for (int node = 3; node < 9; ++node) {
    job.nodes.push_back(healthy_node(node));
    job.layout.hosts.push_back("vn" + std::to_string(node + 1));
  }
  for (const std::size_t odd : {2, 6, 7, 8}) job.nodes[odd].system.cpu.kernel = "5.0";
  const auto findings = check_cpu(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(
      to_line(findings[0]),
      "warning [cpu] vn[3,7-9]: the kernel is 5.0, elsewhere 6.1.0; ask for nodes of one kind (sbatch --constraint)");
}

TEST(CheckCasesTest, RoutedNetworksAreInOrder) {
  auto job = healthy_job();
  job.nodes[2].network->subnet = "10.0.1.0/24";
  job.nodes[2].network->subnets = {"10.0.1.0/24"};
  EXPECT_THAT(check_subnet(job), IsEmpty());
}

TEST(CheckCasesTest, ASmallMachineIsNoNarrowMask) {
  auto job = healthy_job();
  for (auto& rank : job.ranks) rank.threads = 64;
  EXPECT_THAT(check_room(job), IsEmpty());
}

TEST(CheckCasesTest, RanksMayHaveOneCpuEach) {
  auto job = healthy_job();
  job.ranks[0].resources.mask = {2};
  job.ranks[1].resources.mask = {3};
  EXPECT_THAT(check_affinity(job), IsEmpty());
}

TEST(CheckCasesTest, CopiesThatMpiDoesNotMakeNeedNoPermission) {
  for (const auto& [name, value] :
       {std::pair("OMPI_MCA_btl_vader_single_copy_mechanism", "none"), std::pair("MV2_SMP_USE_CMA", "0")}) {
    auto job = healthy_job();
    job.nodes[2].system.ptrace_scope = "2";
    (*job.nodes[2].environment)[name] = value;
    EXPECT_THAT(check_cma(job), IsEmpty()) << name;
  }
}

TEST(CheckCasesTest, TheSameFaultOnSeveralNodesIsOneLine) {
  auto job = healthy_job();
  for (const std::size_t node : {1, 2}) job.nodes[node].program.missing = {"libfoo.so.1"};
  const auto findings = check_unresolved(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].hosts, ElementsAre("vn2", "vn3"));
}

TEST(CheckCasesTest, AWrongClockOnAnyNodeIsTheOddOne) {
  auto job = healthy_job();
  job.nodes[0].time = 1060.0;
  const auto findings = check_clock(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].hosts, ElementsAre("vn1"));
}

}  // namespace
}  // namespace mn::launcher
