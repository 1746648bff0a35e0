// What the data path costs each rank, as the kernel counts it: files opened, bytes read, memory kept.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>
#include <mn/data/sampler.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/loader/scatter.hpp>

#include "tests/support/resident_bytes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kShards = 24;
constexpr std::int64_t kPerShard = 64;
constexpr std::int64_t kLanes = 4;
// User block, labels, checksums, offsets.
constexpr std::int64_t kMetadata = 4096 + kPerShard * 4 + kPerShard * 4 + (kPerShard + 1) * 8;
constexpr std::int64_t kSlack = 64 << 10;  // MPI and this test read too

std::int64_t length_of(std::int64_t sample) { return 5000 + sample % 977 * 7; }

/// Bytes that this process has read by system calls.
std::int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::int64_t value = -1;
  while (file >> name >> value) {
    if (name == "rchar:") return value;
  }
  return -1;
}

/// Names of the shards that this process holds open.
std::set<std::string> open_shards(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const fs::path target = fs::read_symlink(entry.path(), gone);
    if (!gone && target.parent_path() == folder) names.insert(target.filename().string());
  }
  return names;
}

class Footprint : public testing::Test {
 protected:
  Footprint() : comm_(create_communicator("naive")) {
    std::string path;
    if (comm_->rank() == 0) {
      folder_ = std::make_unique<test::TemporaryFolder>();
      path = fs::canonical(folder_->path()).string();
      make_shards(path);
    }
    path_ = comm_->bcast_obj(path);
  }
  ~Footprint() override { comm_->barrier(); }

  static void make_shards(const std::string& folder) {
    const SampleSpec spec = labeled({.kind = FieldKind::kEncoded}, 1);
    std::vector<data::ShardInfo> shards;
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < kShards; ++i) {
      data::ShardContent content(spec);
      for (std::int64_t sample = i * kPerShard; sample < (i + 1) * kPerShard; ++sample) {
        bytes.assign(length_of(sample), static_cast<std::byte>(sample));
        content.add_encoded(bytes, 0, {1, 1, 3}, "");
      }
      shards.push_back(data::write_shard(fs::path(folder) / data::shard_name("train", i, kShards), content));
    }
    data::write_manifest(data::ShardTable(folder, "train", spec, shards));
  }

  /// An order in which each rank owns lanes, where the number of ranks divides theirs.
  GlobalSampler sampler(const SubDataset& part) const {
    return {part.global_size(),
            part.fingerprint(),
            {.batchsize = 8,
             .rank = comm_->rank(),
             .ranks = comm_->size(),
             .order = {.shuffle = true, .sticky = true, .lanes = kLanes}}};
  }

  std::shared_ptr<Communicator> comm_;
  std::unique_ptr<test::TemporaryFolder> folder_;
  std::string path_;
};

TEST_F(Footprint, IndexingReadsHeadersOnRankZeroAndNothingElsewhere) {
  const std::int64_t before = bytes_read();
  const auto part = scatter_dataset(open_dataset(path_), comm_, {.shuffle = true});
  const std::int64_t read = bytes_read() - before;
  const auto manifest = static_cast<std::int64_t>(fs::file_size(fs::path(path_) / "manifest.h5"));
  EXPECT_LE(read, kSlack + (comm_->rank() == 0 ? 2 * manifest + kShards * 4096 : 0));
  EXPECT_EQ(part->io().bytes, 0);
  EXPECT_TRUE(open_shards(path_).empty());
}

TEST_F(Footprint, ARankOpensItsOwnShardsAndReadsItsOwnBytes) {
  const auto part = scatter_dataset(open_dataset(path_), comm_, {.shuffle = true});
  GlobalSampler steps = sampler(*part);
  std::set<std::string> shards;
  std::int64_t bytes = 0;
  RawSamples out;
  const std::int64_t before = bytes_read();
  while (const auto step = steps.next()) {
    part->shared()->read(step->indices, out);
    for (const std::int64_t sample : step->indices) {
      bytes += length_of(sample);
      shards.insert(data::shard_name("train", sample / kPerShard, kShards));
    }
  }
  const std::int64_t read = bytes_read() - before;
  const auto opened = static_cast<std::int64_t>(shards.size());

  EXPECT_EQ(open_shards(path_), shards);
  EXPECT_EQ(part->io().opens, opened);
  EXPECT_EQ(part->io().bytes, bytes + opened * kMetadata);
  EXPECT_GE(read, bytes + opened * kMetadata);
  EXPECT_LE(read, bytes + opened * kMetadata + kSlack);
  if (kLanes % comm_->size() == 0) {
    EXPECT_EQ(opened, kShards / comm_->size());
  }
}

TEST_F(Footprint, MemoryStaysFlatOverEpochs) {
  const auto part = scatter_dataset(open_dataset(path_), comm_, {.shuffle = true});
  GlobalSampler steps = sampler(*part);
  RawSamples out;
  const auto read_epoch = [&] {
    while (const auto step = steps.next()) part->shared()->read(step->indices, out);
  };
  read_epoch();
  const std::int64_t before = test::resident_bytes();
  for (int epoch = 0; epoch < 4; ++epoch) read_epoch();  // 13 MB each, over all ranks
  EXPECT_LE(test::resident_bytes() - before, 2 << 20);
}

}  // namespace
}  // namespace mn
