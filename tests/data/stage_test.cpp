// Copies of shards on a node's own disk.
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/log.hpp>
#include <mn/data/file_stage.hpp>
#include <mn/data/hdf5_reader.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/stored_dataset.hpp>

#include "data/index_files.hpp"
#include "tests/data/disk_room.hpp"
#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

/// Whether that many copies are in use, within some seconds.
bool comes_to(const FileStage& stage, std::size_t copies) {
  for (int i = 0; i < 2000 && stage.copies() != copies; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return stage.copies() == copies;
}

class Stage : public Shards {
 protected:
  Stage() {
    fs::create_directories(path_);
    table_ = make_encoded(path_);
    node_ = node_in(disk_);
  }

  /// Every sample of the dataset is right.
  void expect_samples(const Dataset& dataset) {
    for (std::int64_t s = 0; s < dataset.size(); ++s) {
      dataset.read(std::span(&s, 1), out_);
      const auto bytes = out_.sample(0, 0);
      EXPECT_TRUE(std::ranges::equal(bytes, encoded_sample(s))) << s;
    }
  }

  static std::shared_ptr<const StageNode> node_in(const fs::path& disk) {
    return std::make_shared<const StageNode>(StageFile::make(disk));
  }

  /// A dataset that reads and makes copies on the disk.
  std::unique_ptr<StoredDataset> staged(const StageOptions& options = {}) {
    auto dataset = std::make_unique<StoredDataset>(std::make_shared<const ShardTable>(table_));
    dataset->stage(options, node_);
    return dataset;
  }

  /// Copies of all shards, by a process that has ended.
  void make_copies() {
    const auto dataset = staged();
    expect_samples(*dataset);
    EXPECT_TRUE(comes_to(board_of(), 3));
  }

  /// The view of a second process of the node.
  const FileStage& board_of() {
    if (!board_) board_ = std::make_unique<FileStage>(table_, node_, StageOptions());
    return *board_;
  }

  ShardTable table_;
  fs::path disk_ = folder_.path() / "disk";
  std::shared_ptr<const StageNode> node_;
  std::unique_ptr<FileStage> board_;
};

TEST_F(Stage, CopiesServeInPlaceOfTheShards) {
  make_copies();
  for (const ShardInfo& shard : table_.shards()) fs::remove(path_ / shard.file);
  expect_samples(*staged());
  EXPECT_EQ(board_of().copies(), 3U);
}

/// Reads while the program itself holds all files of the limit. 0 if that is an error and the copies stay.
int read_without_a_file_left(const StoredDataset& dataset, const FileStage& board) {
  const auto own = take_all_files(300);
  RawSamples out;
  const std::int64_t first = 0;
  const std::string error = test::message_of<DataError>([&] { dataset.read(std::span(&first, 1), out); });
  if (error.find("ulimit -n") == std::string::npos) return 2;
  return board.copies() == 3 ? 0 : 3;
}

TEST_F(Stage, CopiesAreKeptWhereNoFileCanBeOpened) {
  make_copies();
  const auto dataset = staged();
  const FileStage& board = board_of();
  EXPECT_EXIT(std::_Exit(read_without_a_file_left(*dataset, board)), testing::ExitedWithCode(0), "");
}

TEST_F(Stage, WhatNobodyReadsIsNotCopied) {
  {
    const auto dataset = staged();
    const std::int64_t in_second = 20;
    dataset->read(std::span(&in_second, 1), out_);
    EXPECT_TRUE(comes_to(board_of(), 1));
  }
  EXPECT_TRUE(board_of().has_copy(1));
  EXPECT_EQ(board_of().copies(), 1U);
}

// Shards are HDF5 files, too.
TEST_F(Stage, Hdf5FilesAsTheyAreAreCopied) {
  const fs::path shards = folder_.path() / "fixed";
  const ShardTable fixed = make_fixed_shards(shards, 300);
  std::vector<fs::path> files;
  for (std::size_t i = 0; i < fixed.num_files(); ++i) files.push_back(fixed.path(i));
  const Hdf5Table table = index_files(files, {{"x", "/data/x"}, {"y", "/data/label"}}, folder_.path(), "train");
  const FileStage board(table, node_, {});
  const auto expect_all = [&](const Dataset& dataset) {
    std::vector<std::int64_t> indices(300);
    for (std::int64_t k = 0; k < 300; ++k) indices[k] = k * 7 % 300;
    dataset.read(indices, out_);
    for (std::int64_t k = 0; k < 300; ++k) {
      EXPECT_EQ(out_.sample(0, k)[14], value_of(indices[k], 14));
      EXPECT_EQ(labels_of(out_)[k], indices[k] % 5);
    }
  };
  const auto staged_index = [&] {
    auto dataset = std::make_unique<StoredDataset>(std::make_shared<const Hdf5Table>(table));
    dataset->stage({}, node_);
    return dataset;
  };
  {
    const auto dataset = staged_index();
    expect_all(*dataset);
    ASSERT_TRUE(comes_to(board, files.size()));
  }
  const std::string whole = read_file(files[1]);
  for (const fs::path& file : files) fs::remove(file);
  expect_all(*staged_index());

  // Lost parts of copies are read from the original file, if the file is unchanged since the index.
  const auto dataset = staged_index();
  ASSERT_EQ(::ftruncate(node_->file.get(), 4096), 0);
  const std::int64_t in_second = 130;
  EXPECT_THAT(test::message_of<DataError>([&] { dataset->read(std::span(&in_second, 1), out_); }),
              testing::HasSubstr(files[1].filename().string()));
  write_file(files[1], whole);
  EXPECT_THAT(test::message_of<DataError>([&] { dataset->read(std::span(&in_second, 1), out_); }),
              testing::HasSubstr("was written again after it was indexed"));
}

TEST_F(Stage, ProcessesOfANodeShareCopies) {
  const auto other = std::make_shared<const StageNode>(StageFile::open(node_->file.handle()), 2);
  StoredDataset dataset(std::make_shared<const ShardTable>(table_));
  dataset.stage({}, other);
  expect_samples(dataset);
  EXPECT_TRUE(comes_to(board_of(), 3));
  EXPECT_THROW((void)StageFile::open("1 0 0 0 /"), DataError);
}

TEST_F(Stage, ABudgetHoldsForAllProcesses) {
  const std::int64_t two = table_.shards()[0].bytes + table_.shards()[1].bytes;
  const auto first = staged({.bytes = two});
  expect_samples(*first);
  EXPECT_TRUE(comes_to(board_of(), 2));
  {
    const auto second = staged({.bytes = two});
    expect_samples(*second);
  }
  EXPECT_EQ(board_of().copies(), 2U);
  EXPECT_FALSE(board_of().has_copy(2));
}

TEST_F(Stage, ATenthOfTheDiskStaysFree) {
  {
    const test::FreePart less(0.09);
    (void)take_warnings();
    const auto dataset = staged();
    expect_samples(*dataset);
    std::vector<std::string> warnings;
    for (int i = 0; i < 2000 && warnings.empty(); ++i, ::usleep(10'000)) warnings = take_warnings();
    EXPECT_THAT(warnings, testing::ElementsAre(testing::HasSubstr("less than a tenth of the disk")));
    EXPECT_EQ(board_of().copies(), 0U);
  }
  const test::FreePart more(0.11);
  node_ = node_in(disk_);
  board_.reset();
  make_copies();
}

TEST_F(Stage, ARateHolds) {
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t bytes = 0;
  for (const ShardInfo& shard : table_.shards()) bytes += shard.bytes;
  node_ = std::make_shared<const StageNode>(StageFile::make(disk_), 4);
  const auto dataset = staged({.bytes_per_second = 10 * bytes});  // a quarter of it for each of four
  expect_samples(*dataset);
  EXPECT_TRUE(comes_to(board_of(), 3));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(400));
}

TEST_F(Stage, ADamagedCopyIsNoticedAndReadFromTheShard) {
  for (const std::uint64_t at : {std::uint64_t{kUserBlockBytes}, std::uint64_t{100}}) {  // samples; the header
    node_ = node_in(disk_);
    board_.reset();
    make_copies();
    const std::vector<std::byte> damage(table_.shards()[0].bytes - at, std::byte{0x55});
    board_of().copy_of(0).write_at(at, damage);
    expect_samples(*staged());
    EXPECT_FALSE(board_of().has_copy(0)) << at;
    EXPECT_TRUE(board_of().has_copy(1));
  }
}

TEST_F(Stage, ACopyThatIsLostWhileItIsReadIsReadFromTheShard) {
  make_copies();
  const auto dataset = staged();
  const std::int64_t first = 0;
  dataset->read(std::span(&first, 1), out_);
  ASSERT_EQ(::ftruncate(node_->file.get(), 4096), 0);  // all but the board
  expect_samples(*dataset);
  EXPECT_EQ(board_of().copies(), 0U);
}

// An attacker with the data's hash must not name copies beforehand, as links to a victim's files.
TEST_F(Stage, NothingInTheFolderIsFollowedOrReplaced) {
  const fs::path victim = folder_.path() / "victim";
  write_file(victim, "precious");
  const std::string name = table_.shards()[0].file;
  const fs::path planted = disk_ / ("mn-stage-" + std::to_string(table_.hash()));
  fs::create_directories(planted);
  for (const fs::path& link : {planted / name, planted / ("." + name + ".tmp"), disk_ / name}) {
    fs::create_symlink(victim, link);
  }
  make_copies();
  EXPECT_EQ(read_file(victim), "precious");
  struct stat facts = {};
  ASSERT_EQ(::fstat(node_->file.get(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
  EXPECT_EQ(facts.st_nlink, 0U) << "the copies have a name";
}

TEST_F(Stage, KillsLeaveNothingBehind) {
  const std::int64_t slow = table_.shards()[2].bytes * 20;
  for (int kill = 0; kill < 100; ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      StoredDataset dataset(std::make_shared<const ShardTable>(table_));
      dataset.stage({.bytes_per_second = slow}, node_in(disk_));
      expect_samples(dataset);
      ::pause();
    }
    ::usleep(200 * static_cast<useconds_t>(kill));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
  }
  EXPECT_TRUE(fs::is_empty(disk_));
}

TEST_F(Stage, MemoryHoldsCopiesOnlyByABudget) {
  const fs::path memory = "/dev/shm";
  if (::access(memory.c_str(), W_OK) != 0) GTEST_SKIP() << "no /dev/shm";
  node_ = node_in(memory);
  expect_samples(*staged());
  EXPECT_EQ(board_of().copies(), 0U);
  node_ = node_in(memory);
  board_.reset();
  const auto dataset = staged({.bytes = 1 << 20});
  expect_samples(*dataset);
  EXPECT_TRUE(comes_to(board_of(), 3));
}

TEST_F(Stage, FoldersThatCannotHoldAFileAreErrors) {
  write_file(folder_.path() / "file", "no folder");
  EXPECT_THROW((void)StageFile::make(folder_.path() / "file"), DataError);
  EXPECT_THROW((void)StageFile::make("/proc/nowhere"), DataError);
}

}  // namespace
}  // namespace mn::data
