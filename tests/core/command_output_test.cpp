#include <csignal>

#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/core/command_output.hpp>

namespace mn {
namespace {

using namespace std::chrono_literals;

TEST(CommandOutput, IsWhatTheProgramPrints) {
  EXPECT_EQ(command_output({"echo", "two  words"}, 10s), "two  words\n");
  EXPECT_EQ(command_output({"sh", "-c", "cat; echo lost >&2; echo $MN_SETTING"}, 10s, "MN_SETTING=set"), "set\n");
  EXPECT_EQ(command_output({"sh", "-c", "head -c 100000 /dev/zero; exit 3"}, 10s).size(), 100'000u);
}

TEST(CommandOutput, IsEmptyWhereThereIsNoAnswer) {
  EXPECT_EQ(command_output({"mn-no-such-program"}, 10s), "");
  EXPECT_EQ(command_output({"sh", "-c", "echo half; exec sleep 100"}, 200ms), "");
}

TEST(CommandOutput, SignalsDoNotEndIt) {
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {};
  sigaction(SIGALRM, &action, &before);
  ualarm(50'000, 50'000);
  EXPECT_EQ(command_output({"sh", "-c", "sleep 0.3; echo late"}, 10s), "late\n");
  ualarm(0, 0);
  sigaction(SIGALRM, &before, nullptr);
}

TEST(CommandOutput, AProgramThatLivesOnIsNotWaitedFor) {
  EXPECT_EQ(command_output({"sh", "-c", "echo said; exec >&-; exec sleep 100"}, 300ms), "said\n");
}

}  // namespace
}  // namespace mn
