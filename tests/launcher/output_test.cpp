#include "launcher/start/output.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>

#include "launcher/cli/output_pattern.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher {
namespace {

using ::testing::HasSubstr;

const OutputNames kNames{7, "42", "vn2", "3"};

TEST(OutputTest, AFolderHasTwoFilesForEachRank) {
  EXPECT_EQ(output_file("logs", kNames, "out"), "logs/rank-0007.out");
  EXPECT_EQ(output_file("logs", {12345, "", "", ""}, "err"), "logs/rank-12345.err");
}

TEST(OutputTest, APatternNamesJobRankHostAndStream) {
  EXPECT_EQ(output_file("logs/%j/%r.%t", kNames, "out"), "logs/42/7.out");
  EXPECT_EQ(output_file("%j.%s.txt", kNames, "out"), "42.3.txt");
  EXPECT_EQ(output_file("%h-%4r-%%.txt", kNames, "err"), "vn2-0007-%.txt");
  EXPECT_EQ(output_file("%99999999999999999r", kNames, "out").native().size(), 16u);
}

TEST(OutputTest, UnknownLettersAreNamed) {
  const auto error = [](const std::string& pattern) {
    return test::message_of<UsageError>([&] { check_output_pattern(pattern); });
  };
  EXPECT_EQ(error("logs"), "");
  EXPECT_EQ(error("logs/%j/%4r.%t%%%h"), "");
  EXPECT_THAT(error("%x.txt"), HasSubstr("has %x: use %r (rank)"));
  EXPECT_THAT(error("50%"), HasSubstr("ends with %"));
  EXPECT_THAT(error("%4"), HasSubstr("ends with %"));
}

TEST(OutputTest, AJobThatIsStartedAgainAppends) {
  Variables first;
  first.set("SLURM_JOB_ID", "42");
  Variables again = first;
  again.set("SLURM_RESTART_COUNT", "1");
  EXPECT_FALSE(appends("logs", false, first));
  EXPECT_FALSE(appends("%r", false, first));
  EXPECT_TRUE(appends("%j.txt", false, first)) << "the ranks write one file";
  EXPECT_TRUE(appends("logs", true, first));
  EXPECT_TRUE(appends("logs", false, again));
  for (const auto& [step, is_later] : {std::pair("0", false), {"1", true}, {"4294967290", false}}) {
    Variables of_step = first;
    of_step.set("SLURM_STEP_ID", step);
    EXPECT_EQ(appends("logs", false, of_step), is_later) << step;
  }
  EXPECT_EQ(batch_job(again), "42");
  EXPECT_EQ(batch_job(Variables()), "0");
}

}  // namespace
}  // namespace mn::launcher
