#include "launcher/place/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "captured.hpp"
#include "placed.hpp"

namespace mn::launcher {
namespace {

using captured::Task;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PlacementTest, WithoutLauncherThereIsOneRank) { expect_placement(placed(Variables()), {0, 1, 0, 1, 0, 1}); }

TEST(PlacementTest, BlockDistributionOfASlurmStep) {  // capture A
  expect_placement(placed(captured::step({1, 1, 0, "0,1,2"}, "ma[1-2]", "3,1", 4)), {1, 4, 1, 3, 0, 2});
  expect_placement(placed(captured::step({3, 0, 1, "3"}, "ma[1-2]", "3,1", 4)), {3, 4, 0, 1, 1, 2});
}

TEST(PlacementTest, CyclicDistribution) {  // capture B
  expect_placement(placed(captured::step({3, 2, 0, "0,2,3"}, "ma[1-2]", "3,1", 4, "cyclic")), {3, 4, 2, 3, 0, 2});
  expect_placement(placed(captured::step({1, 0, 1, "1"}, "ma[1-2]", "3,1", 4, "cyclic")), {1, 4, 0, 1, 1, 2});
}

TEST(PlacementTest, PlaneDistribution) {  // capture C
  auto variables = captured::step({5, 2, 0, "0,1,5,6"}, "ma[1-3]", "4,2,1", 7, "plane");
  variables.set("SLURM_DIST_PLANESIZE", "2");
  expect_placement(placed(variables), {5, 7, 2, 4, 0, 3});
}

TEST(PlacementTest, ArbitraryDistribution) {  // capture D: the numbers of the nodes are Slurm's
  const Task tasks[] = {{0, 0, 1, "0,2"}, {1, 0, 0, "1"}, {2, 1, 1, "0,2"}, {3, 0, 2, "3"}};
  const std::vector<int> expected[] = {{0, 4, 0, 2, 1, 3}, {1, 4, 0, 1, 0, 3}, {2, 4, 1, 2, 1, 3}, {3, 4, 0, 1, 2, 3}};
  for (int rank = 0; rank < 4; ++rank) {
    const auto variables = captured::step(tasks[rank], "ma[1-3]", "1,2,1", 4, "arbitrary");
    expect_placement(placed(variables), expected[rank]);
    const auto with_pmix = captured::with_pmix(variables, rank);
    EXPECT_FALSE(asks_server(Launcher::kPmix, with_pmix));
    expect_placement(placed(with_pmix), expected[rank]);
    EXPECT_THAT(placed(with_pmix).hosts, ElementsAre("ma1", "ma2", "ma3"));
  }
}

TEST(PlacementTest, EvenStepOfThreeNodes) {  // capture E
  expect_placement(placed(captured::step({4, 0, 2, "4,5"}, "ma[1-3]", "2(x3)", 6)), {4, 6, 0, 2, 2, 3});
}

TEST(PlacementTest, HeterogeneousStep) {  // capture F: ids restart in each component, ranks don't
  const std::vector<std::string> hosts = {"ma1", "ma1", "ma2"};
  const auto variables = captured::with_pmix(captured::step({2, 0, 1, "2"}, "ma2", "2,1", 3), 2);
  EXPECT_TRUE(asks_server(Launcher::kPmix, variables)) << "a component's variables name its own nodes only";
  expect_placement(placed(variables, pmix_job(2, hosts)), {2, 3, 0, 1, 1, 2});
}

TEST(PlacementTest, BatchScriptItselfIsAlone) {  // capture G
  expect_placement(placed(captured::batch_script()), {0, 1, 0, 1, 0, 1});
  for (const char* reserved : {"-5", "4294967291", "4294967290"}) {  // later versions print the reserved number
    auto variables = captured::batch_script();
    variables.set("SLURM_STEP_ID", reserved);
    EXPECT_EQ(innermost(variables, no_socket), Launcher::kNone) << reserved;
  }
}

TEST(PlacementTest, MpiexecInABatchScriptIgnoresStaleSlurmVariables) {  // capture H
  const auto variables = captured::with_open_mpi(captured::batch_script(), 1, 2, 1, 2);
  EXPECT_FALSE(asks_server(Launcher::kPmix, variables)) << "the variables describe a job of one node";
  expect_placement(placed(variables), {1, 2, 1, 2, 0, 1});
  EXPECT_EQ(placed(variables).source, "PMIx 10616833");
}

TEST(PlacementTest, AllocationShellIsAlone) {  // capture I
  expect_placement(placed(Variables({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}})),
                   {0, 1, 0, 1, 0, 1});
}

TEST(PlacementTest, MpirunInAnAllocationIgnoresTheDaemonsStep) {  // capture J
  const auto daemons = captured::step({1, 0, 1, "1"}, "ma[1-2]", "1(x2)", 2);
  const auto variables = captured::with_open_mpi(daemons, 3, 4, 1, 2);
  expect_placement(placed(variables, pmix_job(3, {"ma1", "ma1", "ma2", "ma2"}, "10616833")), {3, 4, 1, 2, 1, 2});
}

TEST(PlacementTest, NodesWithOneHostNameAreToldApartByTheLaunchersNames) {  // capture K
  auto variables = captured::with_pmix(captured::step({1, 0, 1, "1"}, "ma[1-2]", "1(x2)", 2), 1);
  variables.set("PMIX_HOSTNAME", "vm");
  expect_placement(placed(variables), {1, 2, 0, 1, 1, 2});
  EXPECT_THAT(placed(variables).hosts, ElementsAre("ma1", "ma2"));
  const auto by_mpiexec = captured::with_open_mpi(Variables(), 1, 2, 0, 1);
  expect_placement(placed(by_mpiexec, pmix_job(1, {"ma1", "ma2"}, "10616833")), {1, 2, 0, 1, 1, 2});
}

TEST(PlacementTest, SlurmsOwnPmiServerLeavesThePlacementToSlurm) {  // capture L
  auto variables = captured::step({3, 0, 1, "3"}, "ma[1-2]", "3,1", 4);
  variables.set("PMI_RANK", "3");
  variables.set("PMI_SIZE", "4");
  variables.set("PMI_FD", "6");
  EXPECT_EQ(innermost(variables, open_socket), Launcher::kSlurm);
  expect_placement(placed(variables), {3, 4, 0, 1, 1, 2});
}

TEST(PlacementTest, AStaleRankOfTheSameStepIsAConflictThatNamesBothValues) {
  auto variables = captured::with_pmix(captured::step({2, 0, 1, "2,3"}, "ma[1-2]", "2(x2)", 4), 2);
  variables.set("SLURM_PROCID", "0");
  const auto here = placed(variables);
  EXPECT_EQ(here.rank, 2);
  EXPECT_THAT(here.conflicts, ElementsAre("PMIx slurm.pmix.7.0 says rank 2, but SLURM_PROCID is 0"));
  auto without_pmix = captured::step({2, 0, 1, "2,3"}, "ma[1-2]", "2(x2)", 4);
  without_pmix.set("SLURM_PROCID", "0");
  EXPECT_EQ(placed(without_pmix).rank, 2);
  EXPECT_THAT(placed(without_pmix).conflicts, ElementsAre("Slurm step 7.0 says rank 2, but SLURM_PROCID is 0"));
}

TEST(PlacementTest, AnotherStepsVariablesAreAConflict) {
  auto variables = captured::with_pmix(captured::step({0, 0, 0, "0"}, "ma1", "1", 1), 0, "slurm.pmix.7.3");
  const auto here = placed(variables, pmix_job(0, {"ma1"}, "slurm.pmix.7.3"));
  EXPECT_THAT(here.conflicts, ElementsAre(HasSubstr("SLURM_JOB_ID.SLURM_STEP_ID is 7.0")));
}

TEST(PlacementTest, OpenMpiSizeThatContradictsItsServerIsAConflict) {
  auto variables = captured::with_open_mpi(Variables(), 0, 5, 0, 2);
  const auto here = placed(variables, pmix_job(0, {"ma1", "ma1"}, "1"));
  EXPECT_THAT(here.conflicts, ElementsAre("PMIx 1 says size 2, but OMPI_COMM_WORLD_SIZE is 5"));
}

}  // namespace
}  // namespace mn::launcher
