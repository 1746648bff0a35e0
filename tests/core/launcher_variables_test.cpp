#include <array>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/environment.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/launcher_variables.hpp>

namespace mn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

VariableLookup in(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
  };
}

TEST(RanksTest, EveryLauncherTellsTheRank) {
  for (const auto& names : kLauncherVariables) EXPECT_EQ(rank_of_environment(in({{names.rank, "3"}})), 3) << names.rank;
  for (const char* name : {"PMIX_RANK", "SLURM_PROCID"}) EXPECT_EQ(rank_of_environment(in({{name, "3"}})), 3) << name;
  EXPECT_EQ(rank_of_environment(in({})), std::nullopt);
  EXPECT_EQ(rank_text_of_launcher(in({})), std::nullopt);
}

TEST(RanksTest, EveryLauncherTellsTheRanksOfANode) {
  for (const auto& names : kLauncherVariables) EXPECT_EQ(ranks_of_node(in({{names.local_size, "3"}})), 3);
  EXPECT_EQ(ranks_of_node(in({{"MN_INTRA_SIZE", "2"}, {"PMI_LOCAL_SIZE", "3"}})), 2);
  EXPECT_EQ(ranks_of_node(in({{"MN_INTRA_SIZE", "0"}, {"PMI_LOCAL_SIZE", "x"}})), 1);
  EXPECT_EQ(ranks_of_node(in({})), 1);
  const auto slurm = [](const char* tasks) {
    return in({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", tasks}});
  };
  EXPECT_EQ(ranks_of_node(slurm("2(x3),16,3")), 16);
  for (const char* none : {"", "(x3)", ",", "99999999999"}) EXPECT_EQ(ranks_of_node(slurm(none)), 1) << none;
}

TEST(RanksTest, TheInnermostLauncherWins) {
  const auto lookup = in({{"PMIX_RANK", "1"}, {"OMPI_COMM_WORLD_RANK", "2"}, {"PMI_RANK", "3"}, {"SLURM_PROCID", "4"}});
  EXPECT_EQ(rank_text_of_launcher(lookup), "1");
  EXPECT_EQ(rank_of_environment(lookup), 1);
  EXPECT_EQ(rank_of_environment(in({{"FLUX_TASK_RANK", "2"}, {"PMI_RANK", "3"}, {"SLURM_PROCID", "4"}})), 2);
}

TEST(RanksTest, AProgramPrefersWhatMnlaunchExportsAndMnlaunchIgnoresIt) {
  const auto lookup = in({{"MN_RANK", "5"}, {"RANK", "6"}, {"PMIX_RANK", "1"}});
  EXPECT_EQ(rank_of_environment(lookup), 5);
  EXPECT_EQ(rank_text_of_launcher(lookup), "1");
  EXPECT_EQ(rank_of_environment(in({{"RANK", "6"}, {"PMIX_RANK", "1"}})), 6);
  EXPECT_EQ(rank_text_of_launcher(in({{"MN_RANK", "5"}, {"RANK", "6"}})), std::nullopt);
}

TEST(RanksTest, AProgramPassesOverWhatIsNoRank) {
  for (const char* text : {"abc", "-1", "1x", " 1", "99999999999", ""}) {
    EXPECT_EQ(rank_of_environment(in({{"MN_RANK", text}, {"PMIX_RANK", text}, {"SLURM_PROCID", "2"}})), 2) << text;
    EXPECT_EQ(parse_rank(text), std::nullopt) << text;
  }
  EXPECT_EQ(rank_text_of_launcher(in({{"PMIX_RANK", "abc"}, {"SLURM_PROCID", "2"}})), "abc");
}

TEST(RanksTest, TheProcessEnvironmentIsALookup) {
  setenv("MN_RANK", "7", 1);
  EXPECT_EQ(rank_of_environment(environment), 7);
  unsetenv("MN_RANK");
}

TEST(RanksTest, OnlyTasksOfSrunAreInAStep) {
  EXPECT_TRUE(in_slurm_step(in({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}})));
  EXPECT_FALSE(in_slurm_step(in({{"SLURM_STEP_ID", "0"}})));
  EXPECT_FALSE(in_slurm_step(in({{"SLURM_PROCID", "0"}})));
  for (const char* reserved : {"-5", "4294967291", "4294967290"}) {
    EXPECT_FALSE(in_slurm_step(in({{"SLURM_STEP_ID", reserved}, {"SLURM_PROCID", "0"}}))) << reserved;
  }
}

void expect_rank(const std::map<std::string, std::string>& variables, int rank, int size, const std::string& job) {
  const JobRank found = job_rank_of_environment(in(variables));
  EXPECT_EQ(found.rank, rank) << ::testing::PrintToString(variables);
  EXPECT_EQ(found.size, size) << ::testing::PrintToString(variables);
  EXPECT_EQ(found.job, job) << ::testing::PrintToString(variables);
}

TEST(RanksTest, EveryLauncherTellsRankSizeAndJob) {
  for (const auto& names : kLauncherVariables) {
    expect_rank({{names.rank, "2"}, {names.size, "3"}, {names.job, "j7"}}, 2, 3, "j7");
  }
  expect_rank({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}, {"SLURM_STEP_ID", "1"}, {"SLURM_JOB_ID", "9"}}, 2, 3,
              "9.1");
  expect_rank({{"MN_RANK", "0"}, {"MN_SIZE", "2"}, {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "3"}}, 0, 2, "");
  expect_rank({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, 1, 2, "");
}

TEST(RanksTest, WhatIsNoTaskOfALauncherIsAlone) {
  expect_rank({}, 0, 1, "");
  expect_rank({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "9"}}, 0, 1, "");  // a batch script
  expect_rank({{"RANK", "3"}}, 0, 1, "");
  expect_rank({{"MN_RANK", "3"}, {"MN_SIZE", "3"}}, 0, 1, "");
  expect_rank({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_NAMESPACE", "j"}}, 0, 1, "");
}

TEST(RanksTest, NodesAreNumberedByTheirLowestRank) {
  const std::array<std::string, 5> names = {"b", "a", "b", "c", "a"};
  EXPECT_THAT(number_nodes(std::span<const std::string>(names)), ElementsAre(0, 1, 0, 2, 1));
  const std::array<int, 3> ids = {7, 7, 2};
  EXPECT_THAT(number_nodes(std::span<const int>(ids)), ElementsAre(0, 0, 1));
  EXPECT_THAT(number_nodes(std::span<const int>()), IsEmpty());
}

TEST(RanksTest, ExitCodesDiffer) {
  const std::set<int> codes = {kExitUsage, kExitRequeue, kExitCheckFailed, kExitCannotRun, kExitNotFound};
  EXPECT_THAT(codes, ElementsAre(2, 75, 78, 126, 127));
}

}  // namespace
}  // namespace mn
