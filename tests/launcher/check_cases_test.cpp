// Cases that checks let pass, and how findings are put together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "healthy.hpp"
#include "launcher/facts/collect.hpp"
#include "launcher/rounds/verdict.hpp"

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
  EXPECT_EQ(to_line(findings[0]),
            "warning [cpu] vn[3,7-9]: the kernel is 5.0, but 6.1.0 on other nodes; ask for nodes of one kind (sbatch "
            "--constraint)");
}

TEST(CheckCasesTest, RoutedNetworksAreInOrder) {
  auto job = healthy_job();
  job.nodes[2].network->subnet = "10.0.1.0/24";
  job.nodes[2].network->subnets = {"10.0.1.0/24"};
  EXPECT_THAT(check_subnet(job), IsEmpty());
}

TEST(CheckCasesTest, InACloudNoNameLeadsToAnAddress) {
  JobFacts job = healthy_job();
  for (auto& node : job.nodes) node.network->resolved.clear();
  EXPECT_THAT(check_address(job), IsEmpty());
  job.nodes[0].network->resolved = job.nodes[0].network->addresses;
  EXPECT_EQ(check_address(job).size(), job.nodes.size() - 1);
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

TEST(CheckCasesTest, AMachineOfOneCpuHasNoOtherForItsRanks) {
  auto job = healthy_job();
  job.nodes[0].machine.cores = {{{2}, 0}};
  job.ranks[0].resources.mask = job.ranks[1].resources.mask = {2};
  EXPECT_THAT(check_affinity(job), IsEmpty());
}

TEST(CheckCasesTest, ManyRanksOfANodeNeedLittleSharedMemoryWithoutGpus) {
  auto job = healthy_job();
  job.layout = {std::vector<int>(512, 0), {"vn1"}};
  job.nodes.resize(1);
  job.nodes[0].machine.gpus.clear();
  const auto with_free = [&](std::uint64_t mib) {
    job.nodes[0].system.shm.free_mib = mib;
    return check_shm(job);
  };
  EXPECT_THAT(with_free(4096), IsEmpty());
  ASSERT_EQ(with_free(4095).size(), 1u);
  EXPECT_FALSE(with_free(4095)[0].is_error);
  EXPECT_TRUE(with_free(7)[0].is_error) << "one rank lacks room";
  job.nodes[0].machine = healthy_machine();
  EXPECT_EQ(with_free(4096).size(), 1u) << "NCCL takes more for the two GPUs";
}

/// The third node is a node without GPUs: a different processor, no driver, a single card.
JobFacts job_with_a_cpu_node() {
  auto job = healthy_job();
  NodeFacts& node = job.nodes[2];
  node.machine.gpus.clear();
  node.driver.reset();
  node.nccl.reset();
  node.gpu_code.clear();
  node.system.driver_module.reset();
  node.system.cpu.model = "Xeon";
  node.system.cpu.count = 32;
  node.machine.numa_nodes = 1;
  node.system.ports.erase(node.system.ports.begin());
  for (const std::size_t rank : {4, 5}) job.ranks[rank].resources.gpus.clear();
  for (auto& binding : job.bindings[2]) binding.gpu = -1;
  return job;
}

std::vector<std::string> lines_of(const JobFacts& job) {
  std::vector<std::string> lines;
  for (const auto& finding : run_checks(job)) lines.push_back(to_line(finding));
  return lines;
}

TEST(CheckCasesTest, AJobMayHaveNodesWithAndWithoutGpus) {
  EXPECT_THAT(
      lines_of(job_with_a_cpu_node()),
      ElementsAre("warning [devices] vn3: there is no GPU for this job, as there is on other nodes: ranks run on "
                  "the CPU there; ask for GPUs on every node (--gpus-per-node=N), or --skip devices if it is "
                  "meant"));
}

TEST(CheckCasesTest, NodesOfOneKindAreStillCompared) {
  auto job = job_with_a_cpu_node();
  job.nodes[1].system.cpu.kernel = "5.0";
  EXPECT_THAT(lines_of(job), ::testing::Contains(::testing::StartsWith("warning [cpu] vn2: the kernel is 5.0")));
}

TEST(CheckCasesTest, AGpuWithoutADriverIsNoCpuNode) {
  auto job = job_with_a_cpu_node();
  job.nodes[2].machine.gpus = healthy_machine().gpus;
  EXPECT_THAT(lines_of(job), ::testing::Contains(::testing::StartsWith("error [driver] vn3: there are GPUs, but no ")));
  EXPECT_THAT(check_gpu_counts(job), IsEmpty()) << "a consequence";
}

TEST(CheckCasesTest, ANodeThatSendsHashesOfItsVariablesDiffersInNone) {
  auto job = healthy_job();
  for (auto& [name, value] : *job.nodes[1].environment) value = hash_of_value(value);
  EXPECT_THAT(check_environment(job), IsEmpty());
  job.nodes[1].environment->at("OMP_NUM_THREADS") = hash_of_value("8");
  const auto findings = check_environment(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].hosts, ElementsAre("vn2"));
  EXPECT_THAT(findings[0].what, ::testing::EndsWith("but 4 on other nodes"));
}

TEST(CheckCasesTest, APortThatFewNodesUseMayBeASpareOne) {
  auto job = healthy_job();
  for (const std::size_t node : {1, 2}) job.nodes[node].system.ports[1].state = "down";
  EXPECT_THAT(check_fabric(job), IsEmpty());
}

TEST(CheckCasesTest, NodesMayHaveOtherNamesForTheirPorts) {
  auto job = healthy_job();
  auto& ports = job.nodes[1].system.ports;
  ports[0].name = "mlx5_1/1";
  ports[1].name = "eno1";
  EXPECT_THAT(check_fabric(job), IsEmpty());
  ports[0].state = "DOWN";
  const auto findings = check_fabric(job);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(to_line(findings[0]), ::testing::StartsWith("error [fabric] vn2: the network port mlx5_0/1 is absent"));
}

TEST(CheckCasesTest, AFindingOnAThousandNodesIsShort) {
  Findings findings;
  Finding same{"x", true, {}, "what", "remedy"};
  for (int node = 0; node < 1000; ++node)
    same.hosts.push_back("rack" + std::to_string(node * 7919 % 1000) + "-node-" + std::to_string(node) + "x");
  add(findings, same);
  for (int node = 0; node < 1000; ++node)
    add(findings, {"y", false, {"n" + std::to_string(node)}, "is " + std::to_string(node), "remedy"});
  const std::string text = reject(findings, {}).complaints;
  EXPECT_LT(text.size(), 2000u);
  EXPECT_THAT(text, ::testing::HasSubstr(" and 992 more: what"));
  EXPECT_THAT(text, ::testing::EndsWith("mnlaunch: warning [y] 992 more; --json has all\n"));
}

TEST(CheckCasesTest, ACpuMapNeedsAListForEachRankOfANode) {
  const auto job = healthy_job();
  EXPECT_THAT(check_cpu_map(job, 0), IsEmpty());
  EXPECT_THAT(check_cpu_map(job, 2), IsEmpty());
  const auto findings = check_cpu_map(job, 1);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(to_line(findings[0]),
              ::testing::StartsWith("error [affinity] vn[1-3]: --cpu-map has 1 lists of CPUs for 2"));
}

/// The findings with `name` skipped.
std::vector<std::string> lines_without(const std::string& name, JobFacts job) {
  job.skip = {name};
  return lines_of(job);
}

TEST(CheckCasesTest, ASkippedCheckHidesNoOther) {
  auto job = healthy_job();
  job.nodes[2].network->subnet = "192.168.0.0/16";
  job.nodes[2].network->subnets = {"192.168.0.0/16"};
  job.nodes[2].network->failures = {"no TCP connection to vn1"};
  EXPECT_THAT(lines_of(job), ElementsAre(::testing::StartsWith("error [network] vn3: ")));
  EXPECT_THAT(lines_without("network", job), ElementsAre(::testing::StartsWith("error [connect] vn3: no TCP ")));

  job = healthy_job();
  job.nodes[2].network->addresses = {};
  EXPECT_THAT(lines_of(job), ElementsAre(::testing::StartsWith("error [network] vn3: ")));
  EXPECT_THAT(lines_without("network", job), ElementsAre(::testing::StartsWith("error [address] vn3: ")));

  job = healthy_job();
  job.nodes[2].system.limits.memlock = 65536;
  EXPECT_THAT(lines_of(job), ElementsAre(::testing::StartsWith("error [memlock] vn3: ")));
  EXPECT_THAT(lines_without("memlock", job),
              ElementsAre(::testing::StartsWith("warning [limits] vn3: the limit memlock (-1: none) is 65536")));

  job = job_with_a_cpu_node();
  job.nodes[2].machine.gpus = healthy_machine().gpus;
  EXPECT_THAT(lines_without("driver", job), ::testing::Contains(::testing::StartsWith("warning [devices] vn3: ")));
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
