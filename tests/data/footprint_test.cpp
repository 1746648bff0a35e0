// The costs of the data path for each rank, counted by the kernel: opened files, requested bytes, bytes from the
// storage, memory.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/fd.hpp>
#include <mn/data/sampler.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/shard_writer.hpp>
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
constexpr std::int64_t kMetadata = 4096 + kPerShard * 8 + kPerShard * 4 + (kPerShard + 1) * 8;
constexpr std::int64_t kSlack = 64 << 10;  // MPI and this test read too

std::int64_t length_of(std::int64_t sample) { return 5000 + sample % 977 * 7; }

std::int64_t io_counter(const std::string& wanted) {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::int64_t value = -1;
  while (file >> name >> value) {
    if (name == wanted) return value;
  }
  return -1;
}

/// Bytes from system calls of the process.
std::int64_t bytes_read() { return io_counter("rchar:"); }

/// Bytes that the storage has read for the process, also ahead of calls.
std::int64_t bytes_delivered() { return io_counter("read_bytes:"); }

/// Drops the folder's files from the page cache.
void drop_from_cache(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const Fd file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    fsync(file.get());  // what is not written yet stays
    posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

/// Names of the process's open shards.
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
      shards.push_back(data::write_shard(fs::path(folder) / data::shard_file_name("train", i, kShards), content));
    }
    data::write_manifest(data::ShardTable(folder, "train", spec, shards));
  }

  /// An order in which each rank owns lanes, if the number of ranks divides the number of lanes.
  GlobalSampler sampler(const SubDataset& part) const {
    return {
        part.global_size(),
        part.fingerprint(),
        {.batchsize = 8, .rank = comm_->rank(), .ranks = comm_->size(), .order = {.shuffle = true, .lanes = kLanes}}};
  }

  /// A dataset on the storage alone: encoded samples of this length, or fields of equal shape.
  std::string make_cold(std::int64_t samples, std::int64_t bytes, FieldKind kind) {
    const std::string folder = path_ + "/cold";
    if (comm_->rank() == 0) {
      const bool fixed = kind == FieldKind::kFixed;
      ShardWriter writer(folder,
                         labeled({.kind = kind, .shape = fixed ? std::vector{bytes} : std::vector<std::int64_t>()}),
                         {.shard_bytes = 16 << 20});
      const std::vector<std::byte> sample(bytes, std::byte{1});
      for (std::int64_t i = 0; i < samples; ++i) writer.add(sample, 0);
      writer.finish();
      drop_from_cache(folder);
    }
    comm_->barrier();
    return folder;
  }

  struct Delivered {
    double bytes = 0;
    double used = 0;
  };
  /// Bytes from the storage to all ranks for the first `part` of a shuffled epoch.
  Delivered read_cold(const std::string& folder, double part) {
    const auto samples = scatter_dataset(open_dataset(folder), comm_, {.shuffle = true});
    const data::OrderOptions order = data::default_order(samples->global_size(), samples->shared()->layout(), true);
    GlobalSampler steps(samples->global_size(), samples->fingerprint(),
                        {.batchsize = 16, .rank = comm_->rank(), .ranks = comm_->size(), .order = order});
    RawSamples out;
    const auto last = static_cast<std::int64_t>(part * static_cast<double>(samples->global_size()));
    double totals[] = {-static_cast<double>(bytes_delivered()), 0};
    for (auto step = steps.next(); step && step->consumed <= last; step = steps.next()) {
      samples->shared()->read(step->indices, out);
      totals[1] += static_cast<double>(out.columns[0].bytes.size());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // what was advised is under way
    totals[0] += static_cast<double>(bytes_delivered());
    comm_->allreduce(totals, ReduceOp::kSum);
    return {totals[0], totals[1]};
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
      shards.insert(data::shard_file_name("train", sample / kPerShard, kShards));
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

TEST_F(Footprint, TheStorageDeliversWhatIsUsed) {
  // More than a full shuffle has: a lane gives samples in random order, and a sample's neighbor is not the next sample.
  const std::string folder = make_cold(1300, 110'000, FieldKind::kEncoded);
  const Delivered third = read_cold(folder, 0.33);
  if (third.bytes == 0) GTEST_SKIP() << "the file system in " << folder << " does not count what its storage reads";
  EXPECT_GE(third.bytes, 0.9 * third.used);
  EXPECT_LE(third.bytes, 1.15 * third.used);
}

TEST_F(Footprint, TheStorageDeliversSmallDataOnceToANode) {
  // Shuffled in full, so every rank reads a sample of each block in nearly every step.
  const std::string folder = make_cold(16'000, 4096, FieldKind::kFixed);
  const Delivered epoch = read_cold(folder, 1);
  if (epoch.bytes == 0) GTEST_SKIP() << "the file system in " << folder << " does not count what its storage reads";
  EXPECT_GE(epoch.bytes, 0.9 * epoch.used);
  EXPECT_LE(epoch.bytes, 1.15 * epoch.used);
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
