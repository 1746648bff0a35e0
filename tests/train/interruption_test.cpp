// What keeps runs from each other's way and from the scheduler's: the output folder, signals, the time limit.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/fd.hpp>
#include <mn/core/file.hpp>
#include <mn/trainer/output_folder.hpp>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/variable.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using test::Variable;
using testing::HasSubstr;
using toy::same_on_all;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

constexpr std::uint64_t kCheckpointBytes = 1 << 20;

std::string refusal(const std::filesystem::path& folder, std::uint64_t bytes = kCheckpointBytes) {
  try {
    const OutputFolder held(folder, bytes);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

/// A lock file as a process leaves it.
std::filesystem::path write_lock(const std::filesystem::path& folder, const std::string& host, const std::string& pid) {
  std::filesystem::create_directories(folder);
  const auto path = folder / ".lock";
  write_file(path, R"({"host": ")" + host + R"(", "pid": )" + pid +
                       R"(, "start": "5", "job": "Slurm job 17", "since": "2026-01-02 03:04:05"})");
  return path;
}

TEST(OutputFolderTest, ASecondProcessIsToldByWhomTheFolderIsHeld) {
  const TestFolder folder(world());
  const auto path = write_lock(folder.path() / std::to_string(world()->rank()), "vn7", "4711");
  {
    const Fd other(open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(flock(other.get(), LOCK_EX | LOCK_NB), 0);
    const std::string text = refusal(path.parent_path());
    EXPECT_THAT(text, HasSubstr("in use by process 4711 on host vn7, Slurm job 17, since 2026-01-02 03:04:05"));
    EXPECT_THAT(text, HasSubstr("--out"));
  }
  EXPECT_EQ(refusal(path.parent_path()), "") << "its owner is gone";
  EXPECT_FALSE(std::filesystem::exists(path)) << "a holder takes its lock away";
}

/// A launcher may have ended while the process that it killed is not quite gone.
TEST(OutputFolderTest, AProcessOfThisHostHasTimeToEnd) {
  const TestFolder folder(world());
  const auto path = write_lock(folder.path() / std::to_string(world()->rank()), host_name(), std::to_string(getpid()));
  Fd other(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(other.get(), LOCK_EX | LOCK_NB), 0);
  const std::jthread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    other.reset();
  });
  EXPECT_EQ(refusal(path.parent_path()), "");
}

TEST(OutputFolderTest, OneProcessMayHoldItTwice) {
  const TestFolder folder(world());
  const auto own = folder.path() / std::to_string(world()->rank());
  const OutputFolder first(own, 0);
  EXPECT_EQ(refusal(own), "");
  EXPECT_TRUE(std::filesystem::exists(own / ".lock"));
}

TEST(OutputFolderTest, TheLockOfAnotherStays) {
  const TestFolder folder(world());
  const auto own = folder.path() / std::to_string(world()->rank());
  auto held = std::make_unique<OutputFolder>(own, 0);
  EXPECT_NO_THROW(held->check_held());
  std::filesystem::remove_all(own);
  EXPECT_THROW(held->check_held(), DataError);
  const auto path = write_lock(own, "vn7", "4711");
  EXPECT_THROW(held->check_held(), DataError);
  held.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(OutputFolderTest, ALockThatIsNoFileIsOneLine) {
  const TestFolder folder(world());
  const auto own = folder.path() / std::to_string(world()->rank());
  std::filesystem::create_directories(own);
  ASSERT_EQ(mkfifo((own / ".lock").c_str(), 0600), 0);
  EXPECT_THAT(refusal(own), HasSubstr("/.lock is not a regular file"));
}

TEST(OutputFolderTest, AFullFolderIsNamedWithItsFreeBytes) {
  const TestFolder folder(world());
  struct statvfs system {};
  ASSERT_EQ(statvfs(folder.path().c_str(), &system), 0);
  const std::string text = refusal(folder.path() / std::to_string(world()->rank()),
                                   static_cast<std::uint64_t>(system.f_blocks) * system.f_frsize + 1);
  EXPECT_THAT(text, testing::ContainsRegex(
                        "is full .*: [0-9.]+ [A-Za-z]+ free, and this run needs at least [0-9.]+ [A-Za-z]+:"));
  EXPECT_THAT(refusal("/proc/result"), HasSubstr("can't be written"));
}

TEST(InterruptionTest, TheTimeLimitEndsAllRanksWithACheckpoint) {
  const TestFolder folder(world());
  const Variable end("MN_END_TIME", std::to_string(std::time(nullptr) + 5));
  ToyJob job(world(), {.trainer = {.epochs = 200, .out = folder.path(), .checkpoint_on_signal = true}});
  EXPECT_EQ(job.trainer->run(), kExitRequeue);
  EXPECT_THAT(job.trainer->end_reason(), HasSubstr("time limit"));
  EXPECT_TRUE(same_on_all(std::to_string(job.trainer->iteration())));
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder.path(), job.trainer->iteration())));
}

TEST(InterruptionTest, AProgramMayChangeItsFolder) {
  const TestFolder folder(world());
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  {
    ToyJob job(world(), {.trainer = {.iterations = 2, .out = "out"}});
    std::filesystem::current_path(before);
    job.trainer->extend("save", {1, "iteration"},
                        [](Trainer& trainer) { trainer.save(checkpoint_path(trainer.out(), trainer.iteration())); });
    EXPECT_EQ(job.trainer->run(), 0);
  }
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder.path() / "out", 2)));
}

/// Somebody removes the output folder, and begins another job there.
TEST(InterruptionTest, ATrainingWhoseFolderIsTakenEndsOnAllRanks) {
  const TestFolder folder(world());
  const auto out = folder.path() / "out";
  const std::map<std::string, std::function<void(Trainer&)>> uses = {
      {"a report", [](Trainer& trainer) { (void)trainer.take_observation(); }},
      {"a save", [&](Trainer& trainer) { trainer.save(checkpoint_path(out, trainer.iteration())); }},
      {"a save in the background", [](Trainer& trainer) { trainer.checkpointer().save_in_background([] {}); }},
      {"the end", [](Trainer& trainer) { trainer.stop("it is over"); }},
  };
  for (const auto& [name, use] : uses) {
    ToyJob job(world(), {.trainer = {.iterations = 4, .out = out}});
    std::int64_t used = 0;
    job.trainer->extend("use", {1, "iteration"}, [&](Trainer& trainer) {
      if (trainer.iteration() < 2) return;
      if (trainer.is_root()) std::filesystem::remove_all(out);
      if (trainer.is_root()) write_lock(out, "vn7", "4711");
      ++used;
      use(trainer);
    });
    const std::string said = test::message_of<DataError>([&] { (void)job.trainer->run(); });
    EXPECT_THAT(said, HasSubstr("was removed or replaced")) << name;
    EXPECT_EQ(used, 1) << name;
    job.trainer.reset();
    if (world()->rank() == 0) {
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out), {}), 1) << name;
      std::filesystem::remove_all(out);
    }
  }
}

TEST(InterruptionTest, NcclMayNotTakeASignalOfSchedulers) {
  const TestFolder folder(world());
  const Variable signal("NCCL_PROXY_DUMP_SIGNAL", std::to_string(SIGUSR2));
  ToyJob job(world(), {.trainer = {.epochs = 1, .out = folder.path(), .checkpoint_on_signal = true}});
  try {
    [[maybe_unused]] const int status = job.trainer->run();
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("NCCL_PROXY_DUMP_SIGNAL is SIGUSR2"));
  }
}

TEST(InterruptionTest, TheStatusFileSaysHowFarARunHasCome) {
  const TestFolder folder(world());
  const auto path = folder.path() / "status";
  const Variable file("MN_STATUS_FILE", path.string());
  const auto read = [&] {
    std::istringstream words(read_file(path));
    std::string word;
    double value = 0;
    std::map<std::string, double> seen;
    while (words >> word >> value) seen[word] = value;
    return seen;
  };
  ToyJob job(world(), {.trainer = {.iterations = 3, .out = folder.path()}});
  job.trainer->extend("save", {2, "iteration"}, [&](Trainer& trainer) {
    if (trainer.is_root()) {
      EXPECT_GE(read()["iteration"], 1) << "the first step is told at once";
    }
    trainer.save(checkpoint_path(trainer.out(), trainer.iteration()));
  });
  EXPECT_EQ(job.trainer->run(), 0);
  if (world()->rank() != 0) return;
  auto seen = read();
  EXPECT_EQ(seen["began"], 0);
  EXPECT_EQ(seen["saved"], 2);
  EXPECT_GE(seen["iteration"], 2);
  EXPECT_GT(seen["loaded"], 0);
  EXPECT_GE(seen["stepped"], seen["loaded"]);
}

TEST(TrainerStop, EndsAfterTheIteration) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.epochs = 5, .out = folder.path()}});
  job.trainer->extend("stop", {3, "iteration"}, [](Trainer& trainer) { trainer.stop("it is enough"); });
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_EQ(job.trainer->iteration(), 3);
  EXPECT_EQ(job.trainer->run(), 0);  // again
  EXPECT_EQ(job.trainer->iteration(), 6);
}

}  // namespace
}  // namespace mn
