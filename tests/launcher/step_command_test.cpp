// The command of a step: hosts of a step, and the command on a changed list of hosts.
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>

#include "supervise/command.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StepCommand command_of(Words words, const std::map<std::string, std::string>& variables = {}) {
  return StepCommand(std::move(words), [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

Words srun_on(const StepCommand& command, const Words& hosts) { return command.on(hosts, "mn-1-2", true); }

TEST(StepCommandTest, SrunGetsOtherHostsAndAsManyRanksOnEach) {
  const std::map<std::string, std::string> job = {{"SLURM_JOB_NODELIST", "vn[1-4]"}, {"SLURM_NTASKS", "8"}};
  const auto four = command_of({"srun", "--mpi=pmix", "mnlaunch", "jobs/mnist", "-n", "5"}, job);
  EXPECT_THAT(four.hosts(), ElementsAre("vn1", "vn2", "vn3", "vn4"));
  EXPECT_EQ(four.wanted_hosts(), std::nullopt);
  EXPECT_THAT(
      srun_on(four, {"vn1", "vn4"}),
      ElementsAre("srun", "--nodes=2", "--nodelist=vn1,vn4", "--ntasks=4", "--ntasks-per-node=2", "--job-name=mn-1-2",
                  "--no-kill", "--overlap", "--mpi=pmix", "mnlaunch", "jobs/mnist", "-n", "5"));
  const auto three = command_of({"/usr/bin/srun", "-N3", "-n", "9", "-w", "vn1", "--nodes=3", "/x/mnlaunch", "a"}, job);
  EXPECT_EQ(three.wanted_hosts(), 3U);
  EXPECT_EQ(three.ranks_per_host(), 3U);
  EXPECT_EQ(srun_on(three, {"vn2"}).back(), "a");
  EXPECT_EQ(srun_on(three, {"vn2"}).size(), 10U);
  EXPECT_EQ(command_of({"srun", "--ntasks-per-node", "4", "mnlaunch", "a"}, job).ranks_per_host(), 4U);
}

TEST(StepCommandTest, MpiexecGetsOtherHosts) {
  const auto command =
      command_of({"mpiexec", "-n", "4", "--host", "a:2,b:2,c:2", "--bind-to", "none", "mnlaunch", "x"});
  EXPECT_THAT(command.hosts(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(command.wanted_hosts(), 2U);
  EXPECT_THAT(command.on({"a", "c"}, "name", false),
              ElementsAre("mpiexec", "-host", "a:2,c:2", "-n", "4", "-x", "MN_STATUS_FILE", "--bind-to", "none",
                          "mnlaunch", "x"));
}

TEST(StepCommandTest, WhatCannotBeStartedElsewhereIsAnError) {
  EXPECT_THROW(command_of({}), UsageError);
  EXPECT_THROW(command_of({"srun", "hostname"}, {{"SLURM_JOB_NODELIST", "vn1"}}), UsageError);
  EXPECT_THROW(command_of({"srun", "mnlaunch", "x"}), UsageError) << "no allocation";
  EXPECT_THROW(command_of({"srun", "-n5", "mnlaunch", "x"}, {{"SLURM_JOB_NODELIST", "vn[1-2]"}}), UsageError);
  EXPECT_THROW(command_of({"mpiexec", "-n", "2", "mnlaunch", "x"}), UsageError) << "no hosts";
  EXPECT_THROW(command_of({"mpiexec", "-host", "a:0", "mnlaunch", "x"}), UsageError);
  EXPECT_THROW(command_of({"srun", "-N3", "mnlaunch", "x"}, {{"SLURM_JOB_NODELIST", "vn[1-2]"}}), UsageError);
  EXPECT_THROW(command_of({"mpiexec", "-host", "a:2", "-n", "4", "mnlaunch", "x"}), UsageError) << "4 of 2 ranks";
  try {
    command_of({"mpiexec", "-host", "a:2", "-n", "3", "mnlaunch", "x"});
    FAIL() << "3 ranks by two";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("3 ranks do not fill hosts of 2: "));
  }
}

/// The error of `srun WORDS mnlaunch x` in a job on vn1 to vn4; empty: there is none.
std::string srun_error(Words words) {
  words.insert(words.begin(), "srun");
  words.insert(words.end(), {"mnlaunch", "x"});
  try {
    command_of(std::move(words), {{"SLURM_JOB_NODELIST", "vn[1-4]"}});
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

/// The command's hosts, and the ranks on each host in a job of 8 tasks.
std::pair<Words, std::size_t> srun_hosts(Words words) {
  words.insert(words.begin(), "srun");
  words.insert(words.end(), {"mnlaunch", "x"});
  const auto command = command_of(std::move(words), {{"SLURM_JOB_NODELIST", "vn[1-4]"}, {"SLURM_NTASKS", "8"}});
  EXPECT_EQ(command.on({"vn2"}, "mn-1-2", false).size(), 9U) << "no other choice of hosts is left to srun";
  return {command.hosts(), command.ranks_per_host()};
}

TEST(StepCommandTest, SrunsExcludedHostsAreNeverUsed) {
  const std::pair<Words, std::size_t> three = {{"vn2", "vn3", "vn4"}, 2};
  EXPECT_EQ(srun_hosts({"--exclude", "vn1"}), three);
  EXPECT_EQ(srun_hosts({"--exclude=vn1,elsewhere"}), three);
  EXPECT_EQ(srun_hosts({"-xvn1"}), three);
  EXPECT_EQ(srun_hosts({"-x", "vn[2-3]", "-x", "vn1"}), three) << "the last counts";
  EXPECT_EQ(srun_hosts({"-x", "vn[1-2,4]"}).first, Words{"vn3"});
  EXPECT_THAT(srun_error({"-x", "vn[1-4]"}), HasSubstr("--exclude leaves no host of vn[1-4]"));
  EXPECT_THAT(srun_error({"-N4", "-x", "vn1"}), HasSubstr("4 hosts, more than there are: vn2,vn3,vn4"));
  EXPECT_THAT(srun_error({"-x", "vn[1"}), HasSubstr("vn[1"));
}

TEST(StepCommandTest, SrunsNodeListLimitsTheHosts) {
  EXPECT_EQ(srun_hosts({"-w", "vn[3-4]"}), (std::pair<Words, std::size_t>{{"vn3", "vn4"}, 2}));
  EXPECT_EQ(srun_hosts({"--nodelist=vn4,vn2,vn4", "-N1"}).first, (Words{"vn4", "vn2"})) << "the second is a spare";
  EXPECT_EQ(srun_hosts({"-wvn4", "-N3", "-x", "vn1"}).first, (Words{"vn4", "vn2", "vn3"})) << "those first";
  EXPECT_THAT(srun_error({"-w", "vn[4-5]"}), HasSubstr("--nodelist names vn5, which is not in vn[1-4]"));
  EXPECT_THAT(srun_error({"-w", "vn1", "-x", "vn1"}), HasSubstr("names vn1, which --exclude excludes"));
}

TEST(StepCommandTest, SrunsHostsMayStandInAFile) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "hosts").string();
  std::ofstream(path) << "# of this week\nvn[1-2]\n\nvn3 # slow\n";
  EXPECT_EQ(srun_hosts({"-x", path}).first, Words{"vn4"});
  EXPECT_EQ(srun_hosts({"--nodelist=" + path}).first, (Words{"vn1", "vn2", "vn3"}));
  EXPECT_EQ(srun_hosts({"-F", path}).first, (Words{"vn1", "vn2", "vn3"}));
  EXPECT_THAT(srun_error({"-x", path + "s"}), HasSubstr("hosts"));
}

}  // namespace
}  // namespace mn::launcher
