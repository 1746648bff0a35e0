// The file for a run's progress: it tells the iteration, and cannot be made to overwrite another file.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <mn/core/file.hpp>
#include <mn/trainer/run_status.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

class RunStatusTest : public testing::Test {
 protected:
  RunStatusTest() { setenv("MN_STATUS_FILE", path_.c_str(), 1); }
  ~RunStatusTest() override { unsetenv("MN_STATUS_FILE"); }

  const test::TemporaryFolder folder_;  // of this rank
  const std::filesystem::path path_ = folder_.path() / "status";
};

TEST_F(RunStatusTest, EachOfManyShortIterationsIsWritten) {
  RunStatus status(true);
  status.began(0);
  for (int iteration = 1; iteration <= 155; ++iteration) {
    status.stepped(iteration);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_NE(read_file(path_).find("\niteration 155 "), std::string::npos) << read_file(path_);
}

TEST_F(RunStatusTest, TheFileIsPrivate) {
  RunStatus(true).began(0);
  struct stat found {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
}

TEST_F(RunStatusTest, WhatLiesThereIsReplacedIfItIsAFileOfOneName) {
  std::ofstream(path_) << std::string(1000, 'x');
  RunStatus(true).began(3);
  EXPECT_EQ(read_file(path_).find('x'), std::string::npos);
}

TEST_F(RunStatusTest, AnotherFileIsNotOverwritten) {
  const auto other = folder_.path() / "other";
  std::ofstream(other) << "precious";
  const auto expect_unchanged = [&] {
    RunStatus status(true);
    status.began(3);
    status.stepped(4);
    EXPECT_EQ(read_file(other), "precious");
    std::filesystem::remove(path_);
  };
  std::filesystem::create_symlink(other, path_);
  expect_unchanged();
  std::filesystem::create_hard_link(other, path_);
  expect_unchanged();
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  expect_unchanged();
}

}  // namespace
}  // namespace mn
