// mnlaunch supervise: the command on other hosts, what a step says, and when there is no other start.
#include "supervise/supervise.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>

#include "supervise/command.hpp"
#include "supervise/progress.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher {
namespace {

using test::TemporaryFolder;
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

TEST(SuperviseTest, Options) {
  const auto options = parse_supervise({"--restarts", "5", "--spares=1", "--min-nodes", "2", "--", "srun", "mnlaunch"});
  EXPECT_EQ(options.restarts, 5U);
  EXPECT_EQ(options.spares, 1U);
  EXPECT_EQ(options.min_hosts, 2U);
  EXPECT_THAT(options.command, ElementsAre("srun", "mnlaunch"));
  for (const Words& wrong :
       {Words{"--restart", "5"}, Words{"--restarts"}, Words{"--spares=-1"}, Words{"--spares", "x"}}) {
    EXPECT_THROW(static_cast<void>(parse_supervise(wrong)), UsageError);
  }
}

/// Stand-ins for mpiexec and srun, scripts that do `step`, and for ssh.
class StandIns {
 public:
  explicit StandIns(const std::string& step) {
    const std::string start = "echo \"$*\" >>" + (folder_.path() / "starts").string() + "\n" + step;
    write("mpiexec", start);
    write("srun", "case $* in *\" true\") exit 0;; esac\n" + start);
    write("ssh",
          "case $* in *\" lost true\"|*localhost*|*127.*|*\" $(hostname) true\") exit 1;; *\" slow true\") sleep 1;; "
          "*\" silent true\") exec sleep 60;; esac");
    write("mnlaunch", "");
    path_ = std::getenv("PATH");
    setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
    setenv("MN_STATUS_FILE", (folder_.path() / "status").c_str(), 1);
  }
  ~StandIns() {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("MN_STATUS_FILE");
  }
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

  [[nodiscard]] Words starts() const {
    Words lines;
    std::ifstream file(folder_.path() / "starts");
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(folder_.path() / name, std::filesystem::perms::owner_all);
  }

  TemporaryFolder folder_;
  std::string path_;
};

constexpr const char* kProgress =
    R"(printf 'began 0\niteration %d\nsaved 20\nup 1\nloaded 2\nstepped 3\n' $(wc -l <"${0%/*}/starts") >"$MN_STATUS_FILE"; )";

SuperviseOptions on_hosts(const std::string& hosts) {
  return {.restarts = 2, .command = {"mpiexec", "-host", hosts, "mnlaunch", "x"}};
}

TEST(SuperviseTest, ALostHostIsLeftOutAndASpareTakesItsPlace) {
  const StandIns stand_ins("[ $(wc -l <\"${0%/*}/starts\") = 2 ]");
  auto options = on_hosts("a:1,lost:1,c:1");
  options.spares = 1;
  EXPECT_EQ(supervise(options), 0);
  EXPECT_THAT(stand_ins.starts(), ElementsAre("-host a:1,lost:1 -n 2 -x MN_STATUS_FILE mnlaunch x",
                                              "-host a:1,c:1 -n 2 -x MN_STATUS_FILE mnlaunch x"));
}

TEST(SuperviseTest, ASilentHostIsLeftOutAndASlowOneStays) {
  const StandIns stand_ins("[ $(wc -l <\"${0%/*}/starts\") = 2 ]");
  EXPECT_EQ(supervise(on_hosts("a:1,silent:1,slow:1")), 0);
  EXPECT_THAT(stand_ins.starts(), ElementsAre("-host a:1,silent:1,slow:1 -n 3 -x MN_STATUS_FILE mnlaunch x",
                                              "-host a:1,slow:1 -n 2 -x MN_STATUS_FILE mnlaunch x"));
}

TEST(SuperviseTest, ItsOwnHostNeedsNoSsh) {
  const StandIns stand_ins("[ $(wc -l <\"${0%/*}/starts\") = 3 ]");
  EXPECT_EQ(supervise(on_hosts("localhost:1," + host_name() + ":1,127.0.0.1:1")), 0);
  EXPECT_EQ(stand_ins.starts().size(), 3U);
}

TEST(SuperviseTest, TooFewHostsEndItAsOneThatAnotherAllocationCanContinue) {
  const StandIns stand_ins(std::string(kProgress) + "exit 1");
  auto options = on_hosts("a:1,lost:1");
  options.min_hosts = 2;
  EXPECT_EQ(supervise(options), kExitRequeue);
  EXPECT_EQ(stand_ins.starts().size(), 1U);
}

TEST(SuperviseTest, GivesUpAfterTheRestartsAreUsed) {
  const StandIns stand_ins(std::string(kProgress) + "exit 3");
  EXPECT_EQ(supervise(on_hosts("a:1")), 3);
  EXPECT_EQ(stand_ins.starts().size(), 3U);
}

TEST(SuperviseTest, GivesUpWhereItFailsTwiceAtTheSameIteration) {
  const StandIns stand_ins(
      R"(printf 'began 0\niteration 7\nsaved 0\nup 1\nloaded 2\nstepped 3\n' >"$MN_STATUS_FILE"; exit 3)");
  EXPECT_EQ(supervise(on_hosts("a:1")), 3);
  EXPECT_EQ(stand_ins.starts().size(), 2U);
}

TEST(SuperviseTest, AStepHasARandomKeyUnlessOneIsSet) {
  unsetenv("MN_LAUNCH_KEY");
  EXPECT_EQ((StandIns("[ ${#MN_LAUNCH_KEY} = 64 ]"), supervise(on_hosts("a:1"))), 0);
  setenv("MN_LAUNCH_KEY", "mine", 1);
  const StandIns stand_ins("[ \"$MN_LAUNCH_KEY\" = mine ]");
  EXPECT_EQ(supervise(on_hosts("a:1")), 0);
  unsetenv("MN_LAUNCH_KEY");
}

TEST(SuperviseTest, WrongOptionsAndRequeueAreNotStartedAgain) {
  for (const int status : {kExitUsage, kExitRequeue, kExitCheckFailed}) {
    const StandIns stand_ins("exit " + std::to_string(status));
    EXPECT_EQ(supervise(on_hosts("a:1")), status);
    EXPECT_EQ(stand_ins.starts().size(), 1U);
  }
}

TEST(SuperviseTest, ASignalThatCameTooEarlyAsksForRequeueToo) {
  const StandIns stand_ins("kill -USR1 $$");
  EXPECT_EQ(supervise(on_hosts("a:1")), kExitRequeue);
  EXPECT_EQ(stand_ins.starts().size(), 1U);
}

/// How supervise ends, and after how many starts, around an srun -K that says this of the first rank that fails.
std::pair<int, std::size_t> end_of_srun(const std::string& first) {
  const StandIns stand_ins("printf 'a line without an end' >&2; echo 'srun: error: a: task 1: " + first +
                           "\nsrun: error: a: tasks 0,2-3: Terminated' >&2; exit 143");
  setenv("SLURM_JOB_NODELIST", "a", 1);
  const int status = supervise({.restarts = 2, .command = {"srun", "-K", "-n4", "mnlaunch", "x"}});
  unsetenv("SLURM_JOB_NODELIST");
  return {status, stand_ins.starts().size()};
}

/// srun -K ends the other ranks with SIGTERM, and then with the highest status, which is theirs.
TEST(SuperviseTest, TheFirstRankThatFailsCountsWhereSrunEndsTheOthers) {
  const std::pair<const char*, int> finals[] = {
      {"Exited with exit code 127", kExitNotFound}, {"Exited with exit code 2", kExitUsage},
      {"Exited with exit code 75", kExitRequeue},   {"Terminated", kExitRequeue},
      {"Exited with exit code 143", kExitRequeue},  {"User defined signal 1", kExitRequeue}};
  for (const auto& [first, status] : finals) EXPECT_EQ(end_of_srun(first), std::pair(status, std::size_t{1})) << first;
  const std::pair<const char*, int> failures[] = {
      {"Exited with exit code 3", 3}, {"Killed", 137}, {"Segmentation fault (core dumped)", 139}, {"Out Of Memory", 1}};
  for (const auto& [first, status] : failures)
    EXPECT_EQ(end_of_srun(first), std::pair(status, std::size_t{3})) << first;
}

/// While hosts are tried after a failure, say, there is no step that could answer it.
TEST(SuperviseTest, NoStepBeginsAfterASignal) {
  const StandIns stand_ins("parent=$PPID; (sleep 0.3; kill -USR1 $parent) & exit 1");
  EXPECT_EXIT(std::exit(supervise(on_hosts("slow:1"))), testing::ExitedWithCode(kExitRequeue), "asked for the end");
  EXPECT_EQ(stand_ins.starts().size(), 1U);
}

TEST(SuperviseTest, ALauncherThatDoesNotEndIsEnded) {
  const StandIns stand_ins(
      "[ $(wc -l <\"${0%/*}/starts\") = 1 ] || exit 0; trap '' TERM; "
      "echo 'mn: rank 0 (host a): lost rank 1 on host b: its process died; all ranks end' >&2; "
      "exec sleep 100");
  EXPECT_EQ(supervise(on_hosts("a:1")), 0);
  EXPECT_EQ(stand_ins.starts().size(), 2U);
}

TEST(ProgressTest, AFileThatIsNotWholeIsNone) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "status";
  EXPECT_FALSE(read_progress(path));
  std::ofstream(path) << "began 3 \niteration 5\nsaved 4\nup 1.5\nloaded 2\n";
  EXPECT_FALSE(read_progress(path));
  std::ofstream(path, std::ios::app) << "stepped 2.5\n";
  const auto progress = read_progress(path);
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->iteration, 5);
  EXPECT_EQ(progress->up, 1.5);
  const Recovery recovery{.detect_s = 0.1, .tear_down_s = 1, .start_s = 2, .load_s = 0.5, .first_step_s = 0.4};
  EXPECT_THAT(recovery.text(), HasSubstr("first step 0.4 s: 4.0 s in all"));
}

}  // namespace
}  // namespace mn::launcher
