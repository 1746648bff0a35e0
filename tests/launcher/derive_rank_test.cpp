#include "launcher/place/derive_rank.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/error.hpp>

#include "captured.hpp"
#include "launcher/place/ask_pmi_server.hpp"
#include "placed.hpp"

namespace mn::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LaunchersTest, JobsWithoutANameOfTheirOwnAreToldApart) {
  EXPECT_THAT(placed(Variables()).job, HasSubstr(std::to_string(getpid())));
  Variables named({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_LOCAL_RANK", "0"}, {"PMI_LOCAL_SIZE", "2"}});
  const std::string job = placed(named).job;
  EXPECT_THAT(job, HasSubstr("user " + std::to_string(getuid())));
  named.set("PBS_JOBID", "17");
  EXPECT_NE(placed(named).job, job);
}

TEST(LaunchersTest, HydraKnowsTheRanksOfItsNode) {
  const auto variables = captured::hydra(Variables(), 3, 4, 1, 2);
  ASSERT_EQ(innermost(variables, open_socket), Launcher::kPmi);
  EXPECT_TRUE(asks_server(Launcher::kPmi, variables)) << "where is the other node?";
  expect_placement(placed_by(Launcher::kPmi, variables), {3, 4, 1, 2, 0, kNotKnown});
  const auto one_node = captured::hydra(Variables(), 1, 2, 1, 2);
  EXPECT_FALSE(asks_server(Launcher::kPmi, one_node));
  expect_placement(placed_by(Launcher::kPmi, one_node), {1, 2, 1, 2, 0, 1});
}

TEST(LaunchersTest, HydrasServerTellsTheWholeLayout) {
  const auto variables = captured::hydra(Variables(), 2, 5, 1, 3);
  const ServerJob job{"kvs_7_0", 2, {0, 1, 0, 1, 0}, {"a", "b", "a", "b", "a"}};
  const auto here = placed_by(Launcher::kPmi, variables, job);
  expect_placement(here, {2, 5, 1, 3, 0, 2});
  EXPECT_EQ(here.job, "kvs_7_0");
  EXPECT_THAT(here.conflicts, ElementsAre());
  EXPECT_THAT(placed_by(Launcher::kPmi, captured::hydra(Variables(), 2, 5, 0, 3), job).conflicts,
              ElementsAre("Hydra (PMI) says local rank 1, but MPI_LOCALRANKID is 0"));
}

TEST(LaunchersTest, HydrasMappingIsReadBlockByBlockAndRepeats) {
  using Nodes = std::vector<int>;
  EXPECT_EQ(nodes_of_mapping("(vector,(0,2,2))", 4), (Nodes{0, 0, 1, 1}));
  EXPECT_EQ(nodes_of_mapping("(vector,(0,1,3),(1,1,1))", 4), (Nodes{0, 0, 0, 1}));
  EXPECT_EQ(nodes_of_mapping("(vector,(0,2,1))", 5), (Nodes{0, 1, 0, 1, 0}));
  EXPECT_EQ(nodes_of_mapping("(vector,(0,2,1),(2,1,2))", 6), (Nodes{0, 1, 2, 2, 0, 1}));
  for (const char* malformed : {"", "(vector)", "(vector,(0,0,1))", "(vector,(0,1))", "(vector,(-1,1,1))"}) {
    EXPECT_EQ(nodes_of_mapping(malformed, 4), std::nullopt) << malformed;
  }
  EXPECT_EQ(nodes_of_mapping("(vector,(7,65536,65536))", 2), (Nodes{7, 7})) << "more ranks than an int counts";
  EXPECT_EQ(nodes_of_mapping("(vector,(0,1,1))", 2'000'000'000), std::nullopt);
}

TEST(LaunchersTest, HydraInsideASlurmTaskWinsAsLongAsItsSocketIsOpen) {
  const auto outer = captured::with_pmix(captured::step({0, 0, 0, "0"}, "ma1", "1", 1), 0);
  const auto variables = captured::hydra(outer, 1, 2, 1, 2);
  EXPECT_EQ(innermost(variables, open_socket), Launcher::kPmi);
  EXPECT_EQ(innermost(variables, no_socket), Launcher::kPmix);
}

TEST(LaunchersTest, OpenMpiVariablesServeWhereItsServerDoesNotAnswer) {
  const auto variables = captured::with_open_mpi(Variables(), 1, 4, 1, 4);
  EXPECT_EQ(without_server(variables), Launcher::kVariables);
  expect_placement(placed_by(Launcher::kVariables, variables), {1, 4, 1, 4, 0, 1});
  const auto alone = captured::with_open_mpi(Variables(), 0, 1, 0, 1);
  expect_placement(placed_by(without_server(alone), alone), {0, 1, 0, 1, 0, 1});
}

TEST(LaunchersTest, WhereNoServerAnswersTwoLaunchersThatDisagreeAreRejected) {
  const auto step = captured::step({1, 0, 1, "1"}, "ma[1-2]", "1(x2)", 2);
  const auto leaked = captured::with_open_mpi(step, 0, 1, 0, 1);
  auto hydra = captured::hydra(step, 0, 1, 0, 1);
  hydra.set("PMI_PORT", "ma1:1234");
  for (const auto& variables : {leaked, hydra}) {
    try {
      static_cast<void>(placed_by(without_server(variables), variables));
      ADD_FAILURE() << "nothing thrown";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 0 of 1, those of Slurm step 7.0 rank 1 of 2"));
    }
  }
  const auto agreed = captured::with_open_mpi(step, 1, 2, 0, 1);
  expect_placement(placed_by(without_server(agreed), agreed), {1, 2, 0, 1, 0, kNotKnown});
}

TEST(LaunchersTest, VariablesOfOtherLaunchersTellThePlacement) {
  const char* const launchers[][4] = {
      {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
      {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
      {"PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PMI_LOCAL_SIZE"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
      {"PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"}};
  for (const auto& [rank, size, local_rank, local_size] : launchers) {
    const Variables told({{rank, "3"}, {size, "4"}, {local_rank, "1"}, {local_size, "2"}});
    EXPECT_EQ(innermost(told, no_socket), Launcher::kVariables) << rank;
    expect_placement(placed(told), {3, 4, 1, 2, 0, kNotKnown});
    const Variables incomplete({{rank, "3"}, {size, "4"}});
    EXPECT_THROW(static_cast<void>(placed(incomplete)), UsageError) << rank;
    const Variables alone({{rank, "0"}, {size, "1"}});
    expect_placement(placed(alone), {0, 1, 0, 1, 0, 1});
  }
}

TEST(LaunchersTest, FluxTellsTheNodesThroughItsServerAlsoInsideASlurmStep) {
  auto variables = captured::step({1, 0, 1, "1"}, "ma[1-2]", "1(x2)", 2);  // the step of Flux's own brokers
  for (const auto& [name, value] : {std::pair("PMI_RANK", "2"), {"PMI_SIZE", "4"}, {"PMI_FD", "6"}}) {
    variables.set(name, value);
  }
  variables.set("FLUX_TASK_RANK", "2");
  ASSERT_EQ(innermost(variables, open_socket), Launcher::kPmi);
  EXPECT_TRUE(asks_server(Launcher::kPmi, variables));
  const ServerJob job{"f1", 2, {0, 0, 1, 1}, {"a", "a", "b", "b"}};
  expect_placement(placed_by(Launcher::kPmi, variables, job), {2, 4, 0, 2, 1, 2});
}

TEST(LaunchersTest, MalformedAndMissingVariablesAreNamed) {
  auto variables = captured::step({1, 1, 0, "0,1"}, "ma1", "2", 2);
  variables.set("SLURM_PROCID", "one");
  EXPECT_THAT(placed(variables).error, HasSubstr("SLURM_PROCID is \"one\"")) << "its node is known, and is told so";
  EXPECT_EQ(placed(variables).intra_rank, 1);
  const auto hydra = Variables({{"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}});
  EXPECT_THAT(placed_by(Launcher::kPmi, hydra).error, HasSubstr("PMI_SIZE is not set"));
}

TEST(LaunchersTest, ANodeOfAStepWithoutItsNumberIsFoundByItsName) {
  const auto step = captured::step({1, 0, 1, "1"}, "ma[1-2]", "1(x2)", 2);
  Variables variables;
  variables.set("SLURMD_NODENAME", "ma2");
  for (const auto& [name, value] : step.all()) {
    if (name != "SLURM_NODEID") variables.set(name, value);
  }
  const auto here = placed(variables);
  EXPECT_THAT(here.error, HasSubstr("SLURM_NODEID is not set"));
  EXPECT_EQ(here.inter_rank, 1);
  for (const char* wrong : {"0", "7", "-1"}) {
    variables.set("SLURM_NODEID", wrong);
    EXPECT_THAT(placed(variables).error,
                HasSubstr(std::string("SLURM_NODEID is ") + wrong + ", but SLURM_STEP_NODELIST"));
    EXPECT_EQ(placed(variables).inter_rank, 1);
  }
  variables.set("SLURM_NODEID", "1");
  EXPECT_EQ(placed(variables).error, "");
}

TEST(LaunchersTest, ANodeThatIsNotInTheStepsListSaysSo) {
  auto variables = captured::step({1, 0, 1, "1"}, "ma[1,3]", "1(x2)", 2);
  EXPECT_EQ(placed(variables).error, "");
  variables.set("SLURMD_NODENAME", "ma2");
  EXPECT_THAT(placed(variables).error, HasSubstr("SLURM_STEP_NODELIST does not have ma2 there"));
  EXPECT_EQ(placed(variables).inter_rank, 1) << "where its parent in the tree may be right";
}

TEST(LaunchersTest, NodesThatComponentsOfAStepShareAreToldApartByTheirNumbers) {
  auto variables = captured::step({1, 0, 1, "1"}, "ma1", "1", 2);
  variables.set("SLURM_STEP_NUM_NODES", "2");
  variables.set("SLURM_HET_SIZE", "2");
  for (const char* component : {"0", "1"}) {
    variables.set(std::string("SLURM_JOB_NODELIST_HET_GROUP_") + component, "ma1");
  }
  variables.set("SLURMD_NODENAME", "ma1");
  EXPECT_EQ(placed(variables).error, "");
  EXPECT_EQ(placed(variables).inter_rank, 1);
}

TEST(LaunchersTest, ImpossibleNumbersAreRejected) {
  const auto here = placed_by(Launcher::kPmi, captured::hydra(Variables(), 4, 4, 0, 2));
  EXPECT_THAT(here.error, HasSubstr("says rank 4 of 4"));
  EXPECT_EQ(here.intra_rank, 0);
  EXPECT_EQ(placed_by(Launcher::kPmi, captured::hydra(Variables(), 3, 4, 2, 2)).intra_rank, kNobody);
  EXPECT_EQ(placed_by(Launcher::kPmi, captured::hydra(Variables(), 0, 4, 1, 2)).intra_rank, kNobody);
}

}  // namespace
}  // namespace mn::launcher
