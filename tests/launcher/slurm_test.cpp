#include "launcher/place/slurm.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>

#include "captured.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SlurmTest, TasksOfTheNodeComeInTheOrderOfTheirLocalIds) {
  EXPECT_THAT(tasks_on_node(captured::step({2, 1, 1, "0,2"}, "ma[1-3]", "1,2,1", 4)), ElementsAre(0, 2));
  EXPECT_THAT(tasks_on_node(captured::step({3, 0, 1, "3"}, "ma[1-2]", "3,1", 4)), ElementsAre(3));
  for (const char* malformed : {"", "a", "1,,2", "-"}) {
    Variables variables;
    variables.set("SLURM_GTIDS", malformed);
    EXPECT_THAT(tasks_on_node(variables), IsEmpty()) << malformed;
  }
}

TEST(SlurmTest, HostsAreThoseOfTheStepInTheOrderOfItsNodeIds) {
  auto variables = captured::step({1, 0, 1, "1"}, "vn[2-3]", "1(x2)", 2);
  variables.set("SLURM_JOB_NODELIST", "vn[1-3]");
  EXPECT_THAT(hosts_of_step(variables), ElementsAre("vn2", "vn3"));
  EXPECT_EQ(step_name(variables), "7.0");
  EXPECT_EQ(step_size(variables), 2);
  EXPECT_EQ(nodes_of_step(variables), 2);
}

TEST(SlurmTest, HostsOfOneComponentAreNotThoseOfTheStep) {  // capture F
  EXPECT_THAT(hosts_of_step(captured::step({2, 0, 1, "2"}, "ma2", "2,1", 3)), IsEmpty());
}

TEST(SlurmTest, NodesOfAHeterogeneousStepAreNumberedByComponent) {
  auto variables = captured::step({2, 0, 1, "2"}, "vn[1-3]", "2,1,2", 5);  // srun … -w vn2 : -w vn3 : -w vn1
  variables.set("SLURM_HET_SIZE", "3");
  EXPECT_THAT(hosts_of_step(variables), IsEmpty()) << "nothing tells the order";
  variables.set("SLURM_JOB_NODELIST_PACK_GROUP_0", "vn2");
  variables.set("SLURM_JOB_NODELIST_PACK_GROUP_1", "vn3");
  EXPECT_THAT(hosts_of_step(variables), IsEmpty()) << "a component's nodes are not known";
  variables.set("SLURM_JOB_NODELIST_HET_GROUP_2", "vn1");
  EXPECT_THAT(hosts_of_step(variables), ElementsAre("vn2", "vn3", "vn1"));
  variables.set("SLURM_STEP_NUM_NODES", "2");
  EXPECT_THAT(hosts_of_step(variables), IsEmpty()) << "the list of nodes is that of another step";
  variables.set("SLURM_STEP_NODELIST", "vn[1-2]");
  EXPECT_THAT(hosts_of_step(variables), ElementsAre("vn2", "vn1")) << "srun --het-group=0,2";
  variables.set("SLURM_STEP_NUM_NODES", "1");
  variables.set("SLURM_STEP_NODELIST", "vn3");
  EXPECT_THAT(hosts_of_step(variables), ElementsAre("vn3"));
  variables.set("SLURM_JOB_NODELIST_HET_GROUP_2", "vn3");
  EXPECT_THAT(hosts_of_step(variables), ElementsAre("vn3")) << "components may share nodes";
}

TEST(SlurmTest, TheFirstHostOfAnLsfJobIsTheFirstOneWithRanks) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "hosts";
  std::ofstream(file) << "batch1\nn1\nn1\nn2\n";
  Variables variables({{"LSB_DJOB_HOSTFILE", file.string()}});
  EXPECT_EQ(first_host_of_allocation(variables), "batch1");
  variables.set("JSM_NAMESPACE_RANK", "3");
  EXPECT_EQ(first_host_of_allocation(variables), "n1") << "jsrun's first host is the launch node";
  std::ofstream(file) << "batch1\n";
  EXPECT_EQ(first_host_of_allocation(variables), "");
  variables.set("LSB_DJOB_HOSTFILE", (folder.path() / "absent").string());
  EXPECT_EQ(first_host_of_allocation(variables), "");
}

TEST(SlurmTest, SlurmKnowsWhereANodeIsWhoseNameLeadsNowhere) {
  const test::TemporaryFolder folder;
  const auto scontrol = folder.path() / "scontrol";
  std::ofstream(scontrol)
      << "#!/bin/sh\n[ \"$4\" = vn2 ] && echo 'NodeName=vn2 CPUTot=4 NodeAddr=10.94.0.3 NodeHostName=vn2'\n";
  std::filesystem::permissions(scontrol, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  EXPECT_EQ(address_by_slurm("vn2"), "10.94.0.3");
  EXPECT_EQ(address_by_slurm("vn3"), "");
  setenv("PATH", path.c_str(), 1);
}

TEST(SlurmTest, AMalformedListOfNodesIsQuoted) {
  try {
    static_cast<void>(hosts_of_step(captured::step({0, 0, 0, "0"}, "vn[1", "1", 1)));
    ADD_FAILURE() << "nothing thrown";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("list of nodes is malformed: "));
  }
}

}  // namespace
}  // namespace mn::launcher
