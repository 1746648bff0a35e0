// When the job's time is over, by variables and by squeue.
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/trainer/time_limit.hpp>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/variable.hpp"

namespace mn {
namespace {

using test::Variable;

TEST(TimeLimitTest, TimeLeftAsSqueueSaysIt) {
  EXPECT_EQ(parse_time_left("1-02:03:04"), 93784);
  EXPECT_EQ(parse_time_left("2:03:04"), 7384);
  EXPECT_EQ(parse_time_left("03:04"), 184);
  EXPECT_EQ(parse_time_left("7"), 7);
  EXPECT_EQ(parse_time_left(std::string_view("1:23").substr(0, 3)), 62) << "what follows the text does not count";
  EXPECT_GT(parse_time_left("UNLIMITED"), 86400 * 365);
  for (const char* none : {"", "INVALID", "NOT_SET", "1-", "-1:00", "1:", ":1", "1:2x", "99999999999999"}) {
    EXPECT_EQ(parse_time_left(none), std::nullopt) << none;
  }
}

TEST(TimeLimitTest, TheLastCheckpointBeginsWhileThereIsTimeForTwo) {
  const auto with_end_in = [](int seconds, std::uint64_t bytes) {
    const Variable end("MN_END_TIME", std::to_string(std::time(nullptr) + seconds));
    return TimeLimit(bytes);
  };
  EXPECT_TRUE(with_end_in(9, 0).is_near());
  TimeLimit limit = with_end_in(1000, 10'000'000'000);  // 100 s at 100 MB/s
  EXPECT_FALSE(limit.is_near());
  limit.add_save(400);
  EXPECT_FALSE(limit.is_near());
  limit.add_save(500);
  EXPECT_TRUE(limit.is_near());
  const Variable wrong("MN_END_TIME", "tomorrow");
  EXPECT_THROW(TimeLimit(0), UsageError);
}

/// A squeue that answers by `script`, for a job of Slurm that ends in so many seconds by its variable.
class SlurmJob {
 public:
  SlurmJob(const std::string& script, int seconds)
      : path_("PATH", folder_.path().string() + ":" + getenv("PATH")),
        job_("SLURM_JOB_ID", "17"),
        end_("SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + seconds)) {
    write_file(folder_.path() / "squeue", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder_.path() / "squeue", std::filesystem::perms::owner_all);
  }

 private:
  test::TemporaryFolder folder_;
  Variable path_, job_, end_;
};

/// Ticks until more than `seconds` are left, which takes squeue's answer; false if it does not come.
bool gets_more_than(TimeLimit& limit, double seconds) {
  for (int i = 0; i < 300 && *limit.left_s() < seconds; ++i) {
    limit.tick();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return *limit.left_s() > seconds;
}

TEST(TimeLimitTest, ATimeThatIsOverIsIgnored) {
  {
    const Variable end("MN_END_TIME", std::to_string(std::time(nullptr) - 5));
    EXPECT_EQ(TimeLimit(0).left_s(), std::nullopt);
  }
  {
    const SlurmJob job("exit 1", -300);
    EXPECT_EQ(TimeLimit(0).left_s(), std::nullopt);
  }
  const SlurmJob job("echo 16 4; echo 17 1:00:00; echo 18 5", -300);
  EXPECT_NEAR(TimeLimit(0).left_s().value_or(0), 3600, 60);
}

TEST(TimeLimitTest, TheEndOfAJobWhoseTimeIsExtendedIsLater) {
  for (const char* answer : {"1-00:00:00", "UNLIMITED"}) {
    const SlurmJob job(std::string("echo 17 ") + answer, 30);
    TimeLimit limit(0);
    EXPECT_LE(limit.left_s(), 30);
    EXPECT_TRUE(gets_more_than(limit, 80'000)) << answer;
    EXPECT_FALSE(limit.is_near());
  }
}

TEST(TimeLimitTest, NothingWaitsForSqueue) {
  const SlurmJob job("exec sleep 60", 9);
  TimeLimit limit(0);
  limit.tick();
  EXPECT_TRUE(limit.is_near());
}

}  // namespace
}  // namespace mn
