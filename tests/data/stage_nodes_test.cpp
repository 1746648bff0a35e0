// Nodes of a job get copies of files from each other. The nodes here belong to one process, and each has a disk of its
// own.
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <mn/core/file.hpp>
#include <mn/data/file_stage.hpp>
#include <mn/data/manifest.hpp>
#include <mn/data/stored_dataset.hpp>

#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using Kind = StageSource::Kind;

TEST(StageDirectories, OneNodeReadsTheOthersWaitAndThenTakeItInTurn) {
  StageDirectory directory;
  const auto now = Clock::now();
  EXPECT_EQ(directory.ask(5, 1, now).kind, Kind::kStorage);
  EXPECT_EQ(directory.ask(5, 1, now).kind, Kind::kStorage) << "it asks again";
  EXPECT_EQ(directory.ask(5, 2, now).kind, Kind::kWait);
  EXPECT_EQ(directory.ask(6, 2, now).kind, Kind::kStorage) << "of another file";
  directory.add(5, 1);
  directory.add(5, 2);
  EXPECT_NE(directory.ask(5, 3, now).node, directory.ask(5, 3, now).node);
  directory.remove(5, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(directory.ask(5, 3, now).node, 2U);
}

TEST(StageDirectories, NobodyWaitsForANodeThatGaveUpOrIsSilent) {
  StageDirectory directory;
  const auto now = Clock::now();
  (void)directory.ask(0, 1, now);
  directory.remove(0, 1);
  EXPECT_EQ(directory.ask(0, 2, now).kind, Kind::kStorage);
  EXPECT_EQ(directory.ask(0, 3, now).kind, Kind::kWait);
  EXPECT_EQ(directory.ask(0, 3, now + StageDirectory::kMaxCopyTime).kind, Kind::kStorage);
}

class StageNodesTest : public Shards {
 protected:
  static constexpr std::size_t kFiles = 3;

  StageNodesTest() {
    fs::create_directories(path_);
    table_ = make_encoded(path_);
    for (std::size_t i = 0; i < kFiles; ++i) all_bytes_ += table_.file_bytes(i);
  }

  /// `count` nodes that know each other.
  void make_nodes(std::uint32_t count) {
    StageNodes nodes{.key = {7, 1}};
    std::vector<std::shared_ptr<StageNode>> made;
    for (std::uint32_t n = 0; n < count; ++n) {
      made.push_back(std::make_shared<StageNode>(StageFile::make(folder_.path() / std::to_string(n))));
      made.back()->listener = listen_on_port(0, Reach::kThisHost);
      const std::uint16_t port = port_of(made.back()->listener);
      nodes.servers.push_back({{"::", 1}, {"127.0.0.1", port}});  // nobody listens at the first
    }
    for (std::uint32_t n = 0; n < count; ++n) {
      made[n]->nodes = nodes;
      made[n]->nodes.self = n;
      nodes_.push_back(made[n]);
      stages_.push_back(std::make_unique<FileStage>(table_, made[n], StageOptions()));
    }
  }

  void want_all(std::size_t node) {
    for (std::size_t file = 0; file < kFiles; ++file) stages_[node]->want(file);
  }
  /// Whether the node gets copies of all files within some seconds.
  bool has_all(std::size_t node) {
    for (int i = 0; i < 3000 && stages_[node]->copies() < kFiles; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return stages_[node]->copies() == kFiles;
  }
  /// Every sample is right, read by a process of the node that does not see the files themselves.
  void expect_samples(std::size_t node) {
    const fs::path hidden = path_.string() + "-hidden";
    fs::rename(path_, hidden);
    StoredDataset dataset(std::make_shared<const ShardTable>(table_));
    dataset.stage({}, std::make_shared<const StageNode>(StageFile::open(nodes_[node]->file.handle())));
    for (std::int64_t s = 0; s < dataset.size(); ++s) {
      dataset.read(std::span(&s, 1), out_);
      EXPECT_TRUE(std::ranges::equal(out_.sample(0, 0), encoded_sample(s))) << s;
    }
    fs::rename(hidden, path_);
  }

  ShardTable table_;
  std::int64_t all_bytes_ = 0;
  std::vector<std::shared_ptr<const StageNode>> nodes_;
  std::vector<std::unique_ptr<FileStage>> stages_;
};

TEST_F(StageNodesTest, WhatANodeHasIsNotReadFromStorageAgain) {
  make_nodes(2);
  want_all(0);
  ASSERT_TRUE(has_all(0));
  EXPECT_EQ(stages_[0]->bytes_from_storage(), all_bytes_);
  want_all(1);
  ASSERT_TRUE(has_all(1));
  EXPECT_EQ(stages_[1]->bytes_from_storage(), 0);
  EXPECT_EQ(stages_[1]->bytes_from_nodes(), all_bytes_);
  expect_samples(1);
}

TEST_F(StageNodesTest, FilesThatAllWantAtOnceAreReadFromStorageOnce) {
  make_nodes(4);
  for (std::size_t n = 0; n < 4; ++n) want_all(n);
  std::int64_t from_storage = 0;
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_TRUE(has_all(n)) << n;
    from_storage += stages_[n]->bytes_from_storage();
  }
  EXPECT_EQ(from_storage, all_bytes_);
  for (std::size_t n = 0; n < 4; ++n) expect_samples(n);
}

TEST_F(StageNodesTest, ADamagedCopyIsNotPassedOn) {
  make_nodes(3);
  want_all(0);
  ASSERT_TRUE(has_all(0));
  const std::vector<std::byte> damage(100, std::byte{0x55});
  stages_[0]->copy_of(2).write_at(5000, damage);
  want_all(1);
  ASSERT_TRUE(has_all(1));
  EXPECT_EQ(stages_[1]->bytes_from_storage(), table_.file_bytes(2));
  StagePeers third(nodes_[2]->nodes);
  StageSource from = third.ask(2);
  for (int i = 0; i < 3000 && from.kind != Kind::kNode; ++i) {  // a finished copy is announced
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    from = third.ask(2);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(third.ask(2).node, 1U) << "the damaged one is not offered";
  want_all(2);
  ASSERT_TRUE(has_all(2));
  EXPECT_EQ(stages_[2]->bytes_from_storage(), 0) << "the second node has a good one";
  expect_samples(1);
  expect_samples(2);
}

TEST_F(StageNodesTest, ANodeThatHasEndedIsDoneWithout) {
  make_nodes(3);
  want_all(0);
  ASSERT_TRUE(has_all(0));
  stages_[0].reset();
  nodes_[0].reset();
  want_all(1);
  EXPECT_TRUE(has_all(1));
  expect_samples(1);
}

TEST_F(StageNodesTest, WithoutTheJobsKeyNothingIsGiven) {
  make_nodes(2);
  want_all(0);
  ASSERT_TRUE(has_all(0));
  for (const auto kind : {StageRequest::Kind::kGet, StageRequest::Kind::kAsk}) {
    const Fd stranger =
        connect_until("127.0.0.1", port_of(nodes_[0]->listener), Clock::now() + std::chrono::seconds(9));
    ASSERT_TRUE(stranger);
    const StageRequest request{.key = {7}, .kind = kind};
    EXPECT_TRUE(send_bytes(stranger, std::as_bytes(std::span(&request, 1))));
    std::byte answer{};
    EXPECT_FALSE(receive_until(stranger, {&answer, 1}, Clock::now() + std::chrono::seconds(9)));
  }
}

}  // namespace
}  // namespace mn::data
