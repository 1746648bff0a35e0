// Signals to mnlaunch supervise: a step gets each signal once, and may answer with a checkpoint.
#include <csignal>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/exit_codes.hpp>

#include "supervise/supervise.hpp"
#include "tests/launcher/stand_ins.hpp"

namespace mn::launcher {
namespace {

using test_steps::on_hosts;
using test_steps::StandIns;
using testing::ElementsAre;

TEST(SuperviseSignalsTest, ASignalThatCameTooEarlyAsksForRequeueToo) {
  const StandIns stand_ins("kill -USR1 $$");
  EXPECT_EQ(supervise(on_hosts("a:1")), kExitRequeue);
  EXPECT_EQ(stand_ins.starts().size(), 1U);
}

/// Without a step to answer, as during trials of hosts after a failure.
TEST(SuperviseSignalsTest, NoStepBeginsAfterASignal) {
  const StandIns stand_ins("parent=$PPID; (sleep 0.3; kill -USR1 $parent) & exit 1");
  EXPECT_EXIT(std::exit(supervise(on_hosts("slow:1"))), testing::ExitedWithCode(kExitRequeue), "asked for the end");
  EXPECT_EQ(stand_ins.starts().size(), 1U);
}

/// As Open MPI's: SIGTERM, SIGHUP and SIGINT end the ranks at once; after SIGUSR1 ranks save for a second. The step
/// sends `send` to the process $parent or to $parent's group, which is not the tests' group.
std::string answering(const std::string& send, const std::string& save = "sleep 1; exit 75") {
  return "for s in INT TERM HUP; do trap \"echo $s >>'${0%/*}/signals'; exit 1\" $s; done; "
         "trap 'echo USR1 >>\"${0%/*}/signals\"; " +
         save +
         "' USR1; "
         "parent=$PPID; group=$(ps -o pgid= -p $PPID | tr -d ' '); (sleep 0.3; " +
         send + ") & n=0; while [ $((n += 1)) -lt 50 ]; do sleep 0.1; done; exit 9";
}

[[noreturn]] void supervise_in_own_group(const SuperviseOptions& options) {
  setpgid(0, 0);
  std::exit(supervise(options));
}

/// As the terminal does, and schedulers.
TEST(SuperviseSignalsTest, ASignalToTheWholeGroupReachesTheStepOnce) {
  for (const char* name : {"INT", "TERM", "HUP"}) {
    const StandIns stand_ins(answering(std::string("kill -") + name + " -$group"));
    EXPECT_EXIT(supervise_in_own_group(on_hosts("a:1")), testing::ExitedWithCode(kExitRequeue), "asked for the end");
    EXPECT_THAT(stand_ins.lines("signals"), ElementsAre("USR1")) << name;
  }
}

/// Open MPI ends ranks within two seconds of SIGTERM, and then with 1.
TEST(SuperviseSignalsTest, RanksUnderMpiexecMayAnswerBeforeTheyEnd) {
  for (const char* name : {"INT", "TERM", "HUP", "USR1"}) {
    // timeout(1), for example, sends a signal twice.
    const std::string send = std::string("kill -") + name + " $parent";
    const StandIns stand_ins(answering(send + "; sleep 0.05; " + send));
    EXPECT_EXIT(supervise_in_own_group(on_hosts("a:1")), testing::ExitedWithCode(kExitRequeue), "asked for the end");
    EXPECT_THAT(stand_ins.lines("signals"), ElementsAre("USR1")) << name;
    EXPECT_EQ(stand_ins.starts().size(), 1U);
  }
}

TEST(SuperviseSignalsTest, ALaterSignalIsPassedAsItIs) {
  const StandIns stand_ins(answering("kill -TERM $parent; sleep 1.3; kill -TERM $parent", ":"));
  EXPECT_EXIT(supervise_in_own_group(on_hosts("a:1")), testing::ExitedWithCode(1), "asked for the end");
  EXPECT_THAT(stand_ins.lines("signals"), ElementsAre("USR1", "TERM"));
}

/// If the scheduler has ended mpiexec itself, mpiexec's status does not show the ranks' saves.
TEST(SuperviseSignalsTest, RanksThatAskForRequeueAreRequeued) {
  const StandIns stand_ins(
      "trap '' TERM USR1; kill -TERM $PPID; echo '2026 rank 0: SIGTERM asked for the end: checkpointed in "
      "out/ckpt/step-00000007, requeue "
      "the job' >&2; sleep 0.3; exit 1");
  EXPECT_EXIT(supervise_in_own_group(on_hosts("a:1")), testing::ExitedWithCode(kExitRequeue), "asked for the end");
}

TEST(SuperviseSignalsTest, AStepEndsWithASuperviseThatIsKilled) {
  const StandIns stand_ins(answering("kill -KILL -$group"));
  EXPECT_EXIT(supervise_in_own_group(on_hosts("a:1")), testing::KilledBySignal(SIGKILL), "");
  for (int i = 0; i < 50 && stand_ins.lines("signals").empty(); ++i) usleep(100'000);
  EXPECT_THAT(stand_ins.lines("signals"), ElementsAre("TERM"));
}

/// srun kills ranks at SIGTERM and SIGHUP, and ignores a first SIGINT.
TEST(SuperviseSignalsTest, RanksUnderSrunMayAnswerBeforeTheyEnd) {
  setenv("SLURM_JOB_NODELIST", "a", 1);
  for (const char* name : {"INT", "TERM", "HUP"}) {
    const StandIns stand_ins(answering(std::string("kill -") + name + " -$group"));
    const SuperviseOptions options = {.restarts = 2, .command = {"srun", "mnlaunch", "x"}};
    EXPECT_EXIT(supervise_in_own_group(options), testing::ExitedWithCode(kExitRequeue), "asked for the end");
    EXPECT_THAT(stand_ins.lines("signals"), ElementsAre("USR1")) << name;
  }
  unsetenv("SLURM_JOB_NODELIST");
}

}  // namespace
}  // namespace mn::launcher
