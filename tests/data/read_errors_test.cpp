// Shards and images on a file server in trouble: this program's own pread() and flock() stand between the library and
// the system.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/stored_dataset.hpp>

#include "images_fixture.hpp"
#include "tests/data/shards_fixture.hpp"

namespace {

/// Number of further errors, and their errno.
std::atomic<int> bad_reads = 0, locks = 0;
std::atomic<int> read_error = 0;
constexpr const char* kShardsName = "train-";
std::atomic<const char*> bad_name = kShardsName;  // files of this name fail to be read

bool is_bad(int fd) {
  char target[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return readlink(link.c_str(), target, sizeof target - 1) > 0 &&
         std::string(target).find(bad_name) != std::string::npos;
}

}  // namespace

extern "C" ssize_t pread(int fd, void* to, size_t count, off_t offset) {
  static const auto real = reinterpret_cast<decltype(&pread)>(dlsym(RTLD_NEXT, "pread"));
  int left = bad_reads;
  while (left > 0 && is_bad(fd) && !bad_reads.compare_exchange_weak(left, left - 1)) {
  }
  if (left > 0 && is_bad(fd)) {
    errno = read_error;
    return -1;
  }
  return real(fd, to, count, offset);
}

/// As a file system without locks.
extern "C" int flock(int, int) noexcept {
  ++locks;
  errno = ENOLCK;
  return -1;
}

namespace mn::data {
namespace {

using test::message_of;
using testing::HasSubstr;

TEST_F(Shards, TroubleThatPassesIsWaitedFor) {
  make_fixed_shards(path_, 300);
  const auto dataset = open_dataset(path_.string());
  EXPECT_EQ(dataset->size(), 300);
  const std::vector<std::int64_t> indices = {5, 290, 130};
  for (const int error : {EIO, ESTALE, ETIMEDOUT}) {
    read_error = error;
    bad_reads = 2;
    const auto fresh = open_table(dataset->table());
    fresh->read(indices, out_);
    EXPECT_EQ(bad_reads, 0);
    for (std::size_t k = 0; k < indices.size(); ++k) EXPECT_EQ(out_.sample(0, k)[3], value_of(indices[k], 3));
    EXPECT_GE(fresh->io().opens, 3);
  }
}

TEST_F(Shards, TroubleThatStaysCountsAsDamage) {
  std::filesystem::create_directories(path_);
  make_encoded(path_);
  const auto dataset = open_dataset(path_.string());
  const std::vector<std::int64_t> indices = {5, 6, 2};
  dataset->read(indices, out_);  // opens the shard
  read_error = EIO;
  bad_reads = 1'000'000;
  std::vector<SampleError> damaged;
  dataset->read(indices, out_, &damaged);
  EXPECT_EQ(out_.size(), 3);
  ASSERT_EQ(damaged.size(), 3u);
  EXPECT_THAT(damaged[0].what, HasSubstr("train-00000-of-00003.h5"));
  EXPECT_THAT(message_of<DataError>([&] { dataset->read(indices, out_); }), HasSubstr("Input/output error"));
  bad_reads = 0;
  dataset->read(indices, out_);
  EXPECT_EQ(out_.sample(0, 2).size(), encoded_sample(2).size()) << "the next read finds the server well again";
}

TEST_F(Shards, AServerThatIsDownIsWaitedForNoLongerThanForOneShard) {
  constexpr std::int64_t kManyShards = 24;
  make_fixed_shards(path_, kManyShards * 128);
  const auto dataset = open_dataset(path_.string());
  EXPECT_EQ(dataset->size(), kManyShards * 128);
  std::vector<std::int64_t> indices;
  for (std::int64_t shard = 0; shard < kManyShards; ++shard) indices.push_back(shard * 128);
  read_error = EIO;
  bad_reads = 1'000'000;
  std::vector<SampleError> damaged;
  const auto begin = std::chrono::steady_clock::now();
  dataset->read(indices, out_, &damaged);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "1.3 s for each shard would be 31";
  EXPECT_EQ(std::ssize(damaged), kManyShards);
  bad_reads = 0;
}

TEST_F(Shards, AShardAfterATroubledOneIsWaitedForToo) {
  make_fixed_shards(path_, 300);
  const auto dataset = open_dataset(path_.string());
  EXPECT_EQ(dataset->size(), 300);
  read_error = EIO;
  bad_reads = 5;  // three shards at once, then the first two again
  std::vector<SampleError> damaged;
  dataset->read(std::vector<std::int64_t>{5, 290, 130}, out_, &damaged);
  EXPECT_TRUE(damaged.empty());
  EXPECT_EQ(bad_reads, 0);
}

TEST_F(Images, TroubleOfTheFileServerLeavesNoneOut) {
  auto lenient = options();
  lenient.images.skip_bad = true;
  bad_name = ".jpg";
  read_error = EIO;
  bad_reads = 3;
  const auto result = convert_images(source_, lenient);
  EXPECT_EQ(bad_reads, 0);
  EXPECT_EQ(result.left_out, 0);
  EXPECT_EQ(labels_by_key(result.table()).size(), 40u);

  lenient.output.out = folder_.path() / "again";
  bad_reads = 1'000'000;
  EXPECT_THAT(message_of<DataError>([&] { convert_images(source_, lenient); }), HasSubstr("Input/output error"));
  bad_reads = 0;
  bad_name = kShardsName;
}

TEST_F(Shards, OtherErrorsAreNotWaitedFor) {
  make_fixed_shards(path_, 300);
  const auto dataset = open_dataset(path_.string());
  EXPECT_EQ(dataset->size(), 300);
  read_error = EINVAL;
  bad_reads = 1;
  const std::int64_t index = 7;
  std::vector<SampleError> damaged;
  EXPECT_THROW(dataset->read(std::span(&index, 1), out_, &damaged), DataError);
  EXPECT_EQ(bad_reads, 0) << "one attempt";
  std::filesystem::remove(path_ / shard_file_name("train", 1, 3));
  const std::int64_t in_removed = 130;
  EXPECT_THROW(dataset->read(std::span(&in_removed, 1), out_, &damaged), DataError);
}

TEST_F(Shards, NeedNoFileLocks) {
  std::filesystem::create_directories(path_);
  locks = 0;
  make_encoded(path_);
  EXPECT_EQ(open_dataset(path_.string())->size(), 51);
  EXPECT_EQ(locks, 0);
}

TEST_F(Shards, ReadsMayWait) {
  make_fixed_shards(path_, 10);
  const File file(path_ / kDatasetManifest, File::Mode::kRead);
  int open_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) != std::filesystem::canonical(file.path())) continue;
    ++open_files;
    EXPECT_EQ(fcntl(std::stoi(entry.path().filename()), F_GETFL) & O_NONBLOCK, 0);
  }
  EXPECT_EQ(open_files, 1);
}

TEST_F(Shards, TheFirstOfManyBadShardsIsNamed) {
  const ShardTable table = make_fixed_shards(path_, 100 * 128);
  for (const std::size_t bad : {30u, 5u, 77u}) std::filesystem::remove(table.path(bad));
  for (int repeat = 0; repeat < 20; ++repeat) {
    EXPECT_THAT(message_of<DataError>([&] { table.check_all(); }), HasSubstr("train-00005-of-00100.h5"));
  }
}

}  // namespace
}  // namespace mn::data
