// mnlaunch supervise: a step's messages, and the reasons against a restart.
#include "supervise/supervise.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>

#include "supervise/status_file.hpp"
#include "tests/launcher/stand_ins.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher {
namespace {

using test::TemporaryFolder;
using test_steps::kProgress;
using test_steps::on_hosts;
using test_steps::StandIns;
using testing::ElementsAre;
using testing::HasSubstr;

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

/// A rank may end before rank 0 has recorded the end of the iteration.
TEST(SuperviseTest, ANeighboringIterationIsTheSame) {
  const StandIns stand_ins(
      R"(printf 'began 0\niteration %d\nsaved 0\nup 1\nloaded 2\nstepped 3\n' $((8 - $(wc -l <"${0%/*}/starts"))) >"$MN_STATUS_FILE"; exit 3)");
  EXPECT_EQ(supervise(on_hosts("a:1")), 3);
  EXPECT_EQ(stand_ins.starts().size(), 2U);
}

TEST(SuperviseTest, ItsFileForProgressIsPrivateAndOfAnotherNameEachTime) {
  const StandIns stand_ins(
      "stat -c '%a %n' \"$MN_STATUS_FILE\" >>\"${0%/*}/files\"; [ $(wc -l <\"${0%/*}/starts\") = 2 ]");
  unsetenv("MN_STATUS_FILE");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(stand_ins.folder());
  EXPECT_EQ(supervise(on_hosts("a:1")), 0);
  std::filesystem::current_path(before);
  const Words files = stand_ins.lines("files");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_NE(files[0], files[1]);
  for (const auto& file : files) {
    EXPECT_THAT(file, testing::MatchesRegex("600 .*/.mn-supervise-[0-9A-Za-z]*"));
    EXPECT_THAT(file, testing::Not(testing::HasSubstr("-" + std::to_string(getpid()))));
    EXPECT_FALSE(std::filesystem::exists(file.substr(4)));
  }
}

TEST(SuperviseTest, NoFileForProgressIsNoFailureBeforeTraining) {
  const StandIns stand_ins("exit 1");
  setenv("MN_STATUS_FILE", "/proc/no/status", 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(supervise(on_hosts("a:1")), 1);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("cannot make the file for progress, /proc/no/status: "));
  EXPECT_THAT(said, HasSubstr("attempt 1 ended with 1; how far it came is unknown"));
  EXPECT_THAT(said, testing::Not(HasSubstr("before training")));
}

/// A step fails at iteration 30, then does not resume from the checkpoint.
std::string said_of_forgotten_resume(const Words& program) {
  const StandIns stand_ins(
      R"(n=$(wc -l <"${0%/*}/starts"); )"
      R"(printf 'began 0\niteration %d\nsaved %d\nup 1\nloaded 2\nstepped 3\n' $((30 / n)) $((20 / n)) >"$MN_STATUS_FILE"; )"
      "sleep 0.3; [ $n = 2 ]");
  auto options = on_hosts("a:1");
  options.command.pop_back();
  options.command.insert(options.command.end(), program.begin(), program.end());
  testing::internal::CaptureStderr();
  EXPECT_EQ(supervise(options), 0);
  return testing::internal::GetCapturedStderr();
}

TEST(SuperviseTest, ACommandThatDoesNotResumeGetsAHint) {
  const std::string hint = "without --resume auto a start after a failure begins anew";
  EXPECT_THAT(said_of_forgotten_resume({"jobs/mnist", "--epoch", "1"}), HasSubstr(hint));
  EXPECT_THAT(said_of_forgotten_resume({"/opt/mn/bin/jobs/mnist"}), HasSubstr(hint));
  for (const Words& program :
       {Words{"jobs/mnist", "--resume", "auto"}, {"jobs/mnist", "--resume=auto"}, {"own", "--epoch", "1"}}) {
    const std::string said = said_of_forgotten_resume(program);
    EXPECT_THAT(said, testing::Not(HasSubstr(hint)));
    EXPECT_THAT(said, HasSubstr("trains again after iteration 0, although iteration 20 is saved"));
  }
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

/// supervise's end and number of starts around an srun -K with this message about the first failed rank.
std::pair<int, std::size_t> end_of_srun(const std::string& first) {
  const StandIns stand_ins("printf 'a line without an end' >&2; echo 'srun: error: a: task 1: " + first +
                           "\nsrun: error: a: tasks 0,2-3: Terminated' >&2; exit 143");
  setenv("SLURM_JOB_NODELIST", "a", 1);
  const int status = supervise({.restarts = 2, .command = {"srun", "-K", "-n4", "mnlaunch", "x"}});
  unsetenv("SLURM_JOB_NODELIST");
  return {status, stand_ins.starts().size()};
}

/// srun -K ends the remaining ranks with SIGTERM, then ends with the highest status, from these ranks.
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
