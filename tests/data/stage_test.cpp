// Copies of shards on a node's own disk.
#include <chrono>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <mn/core/fd.hpp>
#include <mn/core/file.hpp>
#include <mn/data/shard_dataset.hpp>
#include <mn/data/shard_stage.hpp>

#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

/// Whether that many copies are in use, within some seconds.
bool comes_to(const ShardStage& stage, std::size_t copies) {
  for (int i = 0; i < 2000 && stage.copies() != copies; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return stage.copies() == copies;
}

class Stage : public Shards {
 protected:
  Stage() {
    fs::create_directories(path_);
    table_ = make_encoded(path_);
  }

  /// Every sample of the dataset is right.
  void expect_samples(const Dataset& dataset) {
    for (std::int64_t s = 0; s < dataset.size(); ++s) {
      dataset.read(std::span(&s, 1), out_);
      const auto bytes = out_.sample(0, 0);
      EXPECT_TRUE(std::ranges::equal(bytes, encoded_sample(s))) << s;
    }
  }

  void make_copies() {
    const ShardStage stage(table_, {.folder = disk_}, 0, 1);
    ASSERT_TRUE(comes_to(stage, 3));
    for (std::size_t i = 0; i < 3; ++i) copies_.push_back(*stage.copy_of(i));
  }

  ShardTable table_;
  fs::path disk_ = folder_.path() / "disk";
  std::vector<fs::path> copies_;
};

TEST_F(Stage, CopiesServeInPlaceOfTheShards) {
  make_copies();
  for (const ShardInfo& shard : table_.shards()) fs::remove(path_ / shard.file);
  ShardDataset dataset(table_);
  dataset.stage({.folder = disk_}, 0, 1);
  const auto only_copies = [&] {
    for (int i = 0; i < 2000; ++i) {  // until it has looked
      try {
        expect_samples(dataset);
        return true;
      } catch (const DataError&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    return false;
  };
  EXPECT_TRUE(only_copies());
}

TEST_F(Stage, ProcessesOfANodeShareTheWork) {
  const ShardStage first(table_, {.folder = disk_}, 0, 2);
  {
    const ShardStage second(table_, {.folder = disk_}, 1, 2);
    EXPECT_TRUE(comes_to(second, 3));
  }
  EXPECT_TRUE(comes_to(first, 3));
  for (const auto& entry : fs::directory_iterator(first.copy_of(0)->parent_path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << "left behind";
  }
}

TEST_F(Stage, ABudgetHoldsTheFirstShards) {
  const std::int64_t two = table_.shards()[0].bytes + table_.shards()[1].bytes;
  const ShardStage stage(table_, {.folder = disk_, .bytes = two}, 0, 1);
  EXPECT_TRUE(comes_to(stage, 2));
  EXPECT_FALSE(stage.copy_of(2).has_value());
  const ShardStage none(table_, {.folder = disk_, .bytes = 1}, 0, 1);
  EXPECT_EQ(none.copies(), 0U);
}

TEST_F(Stage, ACopyThatIsNoGoodIsReadFromTheShard) {
  make_copies();
  const std::string whole = read_file(copies_[0]);
  std::string damaged = whole, other = whole;
  for (std::size_t i = kUserBlockBytes; i < damaged.size(); ++i) damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
  other[100] = static_cast<char>(other[100] ^ 1);  // in the header
  for (const std::string& bad : {damaged, other, whole.substr(0, whole.size() / 2), std::string()}) {
    std::ofstream(copies_[0], std::ios::binary) << bad;
    ShardDataset dataset(table_);
    dataset.stage({.folder = disk_}, 0, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    expect_samples(dataset);
  }
}

TEST_F(Stage, ACopyThatIsLostWhileItIsReadIsReadFromTheShard) {
  make_copies();
  ShardDataset dataset(table_);
  dataset.stage({.folder = disk_}, 0, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::int64_t first = 0;
  dataset.read(std::span(&first, 1), out_);
  for (const fs::path& copy : copies_) fs::resize_file(copy, kUserBlockBytes);
  expect_samples(dataset);
}

TEST_F(Stage, WhatAKilledProcessLeftIsReplacedAndWhatAnotherCopiesIsLeftAlone) {
  make_copies();
  const fs::path left = copies_[0].parent_path() / ("." + copies_[0].filename().string() + ".tmp");
  fs::remove(copies_[0]);
  std::ofstream(left) << "half";
  {
    const Fd lock(::open(left.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
    const ShardStage stage(table_, {.folder = disk_}, 0, 1);
    EXPECT_TRUE(comes_to(stage, 2));
    EXPECT_EQ(read_file(left), "half");
  }
  const ShardStage stage(table_, {.folder = disk_}, 0, 1);
  EXPECT_TRUE(comes_to(stage, 3));
  EXPECT_FALSE(fs::exists(left));
  EXPECT_EQ(read_file(copies_[0]), read_file(path_ / table_.shards()[0].file));
}

TEST_F(Stage, WhereNothingCanBeCopiedTheShardsAreRead) {
  std::ofstream(folder_.path() / "file") << "no folder";
  for (const fs::path& folder : {folder_.path() / "file", fs::path("/proc/nowhere")}) {
    ShardDataset dataset(table_);
    dataset.stage({.folder = folder}, 0, 1);
    expect_samples(dataset);
  }
}

}  // namespace
}  // namespace mn::data
