// Shards: shards are read back, also by HDF5's own tools, at the least cost.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/stored_dataset.hpp>

#include "data/extract.hpp"
#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::HasSubstr;

TEST_F(Shards, FixedSamplesComeBack) {
  const ShardTable written = make_fixed_shards(path_, 1000);
  EXPECT_EQ(written.shards().size(), 8u);
  const auto dataset = open_dataset(path_.string());
  EXPECT_EQ(dataset->size(), 1000);
  EXPECT_EQ(dataset->spec(), make_fixed(1)->spec());
  const std::vector<std::int64_t> indices = {0, 999, 127, 128, 63, 64, 500, 500, 3};
  dataset->read(indices, out_);
  for (std::size_t k = 0; k < indices.size(); ++k) {
    EXPECT_EQ(labels_of(out_)[k], indices[k] % 5);
    EXPECT_EQ(out_.sample(0, k).size(), 15u);
    for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(out_.sample(0, k)[i], value_of(indices[k], i));
  }
  EXPECT_EQ(open_dataset(path_.string())->fingerprint(), dataset->fingerprint());
}

TEST_F(Shards, EncodedSamplesComeBackThroughATable) {
  std::filesystem::create_directories(path_);
  const ShardTable written = make_encoded(path_);
  const auto dataset = open_table(open_dataset(path_.string())->table());
  EXPECT_EQ(dataset->size(), 51);
  std::vector<std::int64_t> indices(51);
  std::iota(indices.rbegin(), indices.rend(), 0);
  dataset->read(indices, out_);
  for (std::int64_t k = 0; k < 51; ++k) {
    const auto expected = encoded_sample(indices[k]);
    EXPECT_EQ(labels_of(out_)[k], indices[k]);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out_.sample(0, k).begin(), out_.sample(0, k).end()));
  }
  const auto extracted = extract_sample(written, 20);
  EXPECT_EQ(extracted.bytes, encoded_sample(20));
  EXPECT_EQ(extracted.key, "key-20");
}

TEST_F(Shards, EqualContentGivesEqualFiles) {
  make_fixed_shards(folder_.path() / "a", 200);
  make_fixed_shards(folder_.path() / "b", 200);
  const std::string name = shard_file_name("train", 0, 2);
  EXPECT_EQ(read_file(folder_.path() / "a" / name), read_file(folder_.path() / "b" / name));
}

TEST_F(Shards, OpensAndReadsOnlyWhatIsAsked) {
  make_fixed_shards(path_, 1280);  // 10 shards of 128
  const auto dataset = open_dataset(path_.string());
  EXPECT_EQ(dataset->size(), 1280);
  EXPECT_EQ(dataset->io().opens, 0) << "metadata alone opens no shard for its samples";
  const std::vector<std::int64_t> indices = {5, 6, 7, 300};
  for (int repeat = 0; repeat < 3; ++repeat) dataset->read(indices, out_);
  EXPECT_EQ(dataset->io().opens, 2);
  const std::int64_t metadata = 4096 + 2 * 4;  // header, checksums of x and label
  EXPECT_EQ(dataset->io().bytes, 2 * (metadata + 128 * (15 + 8))) << "one block each, once";
}

TEST_F(Shards, BlocksHave64KiBOrOneSample) {
  struct Size {
    std::int64_t sample_bytes, block_samples;
  };
  for (const Size size : {Size{1, 7282}, {784, 83}, {4096, 16}, {12288, 6}, {65536, 1}, {50'000'000, 1}}) {
    EXPECT_EQ(default_block_samples(labeled({.shape = {size.sample_bytes}})), size.block_samples) << size.sample_bytes;
  }
  const ShardTable table = make_fixed_shards(path_, 23, 20'000);
  EXPECT_EQ(table.block_samples(), 4);
  EXPECT_EQ(table.layout().block_samples, 4);
  EXPECT_EQ(read_manifest(path_).block_samples(), 4);
  EXPECT_EQ(ShardTable::parse(table.serialize()).block_samples(), 4);
  const StoredDataset dataset(path_.string());
  for (const std::int64_t index : {22, 3, 17, 4}) {
    dataset.read(std::span(&index, 1), out_);
    EXPECT_EQ(out_.columns[0].bytes[19'999], value_of(index, 19'999));
  }
  const std::int64_t metadata = 2 * 4096 + 23 * 8 + (4 + 2) * 4;
  EXPECT_EQ(dataset.io().bytes, metadata + (3 + 4 + 4 + 4) * 20'000) << "the blocks of samples 20, 0, 16 and 4";
}

TEST_F(Shards, FewOpenFilesAndLittleMemoryAreEnough) {
  make_fixed_shards(path_, 1280);
  const StoredDataset dataset(path_.string(), {.open_files = 2, .cache_bytes = 1});
  for (std::int64_t i = 0; i < 1280; i += 37) {
    const std::int64_t index = i * 769 % 1280;
    dataset.read(std::span(&index, 1), out_);
    EXPECT_EQ(labels_of(out_)[0], index % 5);
    EXPECT_EQ(out_.columns[0].bytes[14], value_of(index, 14));
  }
}

TEST_F(Shards, HoldNoMoreThanTheyAreTold) {
  constexpr std::int64_t kSamples = 200, kBytes = 20'000, kFew = 200'000;  // blocks of 80,000 bytes
  make_fixed_shards(path_, kSamples, kBytes);
  const auto dataset = open_dataset(path_.string());
  const auto read_all = [&] {
    for (std::int64_t i = 0; i < kSamples; ++i) {
      const std::int64_t index = i * 77 % kSamples;
      dataset->read(std::span(&index, 1), out_);
      EXPECT_EQ(out_.columns[0].bytes[kBytes - 1], value_of(index, kBytes - 1));
    }
  };
  EXPECT_EQ(dataset->io().held, 0);
  read_all();
  EXPECT_EQ(dataset->io().held, kSamples * kBytes) << "there is room for all";
  dataset->hold_at_most(kFew);
  EXPECT_LE(dataset->io().held, kFew);
  read_all();
  EXPECT_LE(dataset->io().held, kFew);
}

/// One shard of a sample under many names.
void make_copies(const std::filesystem::path& folder, int shards) {
  const ShardTable one = write_fixed_dataset(*make_fixed(1), {.out = folder, .split = "train", .shard_bytes = 23}, {});
  std::vector<ShardInfo> copies(shards, one.shards()[0]);
  for (int i = 0; i < shards; ++i) {
    copies[i].file = shard_file_name("copy", i, shards);
    std::filesystem::copy(one.path(0), folder / copies[i].file);
  }
  write_manifest(ShardTable(folder.string(), "train", one.spec(), copies, one.block_samples()));
}

/// Opens two datasets, each of more shards than the system's limit of `files` has room for both of, and reads all.
/// `held`: files that the program has open itself.
void read_two_datasets(const std::string& folder, rlim_t files, int held) {
  std::vector<File> own;
  for (int i = 0; i < held; ++i) own.emplace_back("/proc/self/exe", File::Mode::kRead);
  const rlimit limit = {files, files};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) std::exit(1);
  const auto first = open_dataset(folder), second = open_dataset(folder);
  RawSamples out;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t i = 0; i < first->size(); ++i) {
      for (const auto& dataset : {first, second}) {
        dataset->read(std::span(&i, 1), out);
        if (out.columns[0].bytes[14] != value_of(0, 14)) std::exit(1);
      }
    }
  }
  std::exit(0);
}

/// Prints the error of a read if the program itself holds all files of the limit.
void read_without_a_file_left(const std::string& folder) {
  const auto dataset = open_dataset(folder);
  const std::int64_t index = dataset->size() - 1;
  const auto own = take_all_files(300);
  RawSamples out;
  std::fputs(test::message_of<DataError>([&] { dataset->read(std::span(&index, 1), out); }).c_str(), stderr);
  std::exit(1);
}

TEST_F(Shards, AllDatasetsShareTheLimitOfOpenFiles) {
  make_copies(path_, 350);
  EXPECT_EXIT(read_two_datasets(path_, 600, 0), testing::ExitedWithCode(0), "");
}

TEST_F(Shards, FilesAreClosedWhereTheProgramItselfHasOpenedTooMany) {
  make_copies(path_, 100);
  EXPECT_EXIT(read_two_datasets(path_, 400, 300), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(read_without_a_file_left(path_), testing::ExitedWithCode(1), "Too many open files.*raise `ulimit -n`");
}

TEST_F(Shards, HdfToolsReadThem) {
  std::filesystem::create_directories(path_);
  make_encoded(path_);
  if (std::system("command -v h5dump >/dev/null") != 0) GTEST_SKIP() << "h5dump is not installed: cmake/setup --tests";
  const std::string file = (path_ / shard_file_name("train", 2, 3)).string();
  const std::string out = (folder_.path() / "dump").string();
  ASSERT_EQ(std::system(("h5dump -d /data/image -b LE -o " + out + " " + file + " >/dev/null").c_str()), 0);
  std::string expected;
  for (std::int64_t s = 21; s < 51; ++s) {
    const auto bytes = encoded_sample(s);
    expected.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  EXPECT_EQ(read_file(out), expected);
  ASSERT_EQ(std::system(("h5dump -d /data/label -y -w 0 " + file + " > " + out).c_str()), 0);
  EXPECT_THAT(read_file(out), HasSubstr("21, 22, 23"));
  EXPECT_EQ(std::system(("h5dump -H " + (path_ / kDatasetManifest).string() + " >/dev/null").c_str()), 0);
}

TEST_F(Shards, WritesNothingIntoAnExistingDataset) {
  make_fixed_shards(path_, 100);
  EXPECT_THAT(message_of<UsageError>([&] { make_fixed_shards(path_, 100); }), HasSubstr("holds a dataset already"));
}

TEST_F(Shards, AFailedWriteLeavesNothingBehind) {
  ShardContent content(labeled({.shape = {1}}));
  content.samples = labeled_samples(ByteBuffer(1 << 20), std::vector<std::int64_t>(1 << 20));
  EXPECT_THAT(message_of<DataError>([&] { write_shard(folder_.path() / "absent" / "x.h5", content); }),
              HasSubstr("absent"));

  // A limit on the size of files stands for a full disk: write(2) fails in the middle of the file.
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {rlim_t{2000}, rlim_t{1} << 20}) {  // in HDF5's part of the work, in ours
    const rlimit small{limit, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    EXPECT_NE(message_of<DataError>([&] { write_shard(folder_.path() / "x.h5", content); }), "");
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  }
  EXPECT_NO_THROW(write_shard(folder_.path() / "x.h5", content));
}

TEST(LargeShard, SamplesBeyond2GiBComeBack) {
  const std::filesystem::path memory = "/dev/shm";  // a disk would take its time
  constexpr std::int64_t kFiller = std::int64_t{360} << 20;
  constexpr int kFillers = 6;
  std::error_code none;
  const auto room = std::filesystem::space(memory, none).available;
  if (none || room < std::uintmax_t{6} << 30) GTEST_SKIP() << "needs 6 GiB of room in " << memory;
  const test::TemporaryFolder folder(memory);

  const SampleSpec spec = labeled({.kind = FieldKind::kEncoded}, 7);
  ShardContent content(spec);
  RawColumn& images = content.samples.columns[0];
  images.bytes.reserve(kFillers * kFiller + (1 << 20));
  for (int i = 0; i < kFillers; ++i) {  // memory that nobody writes to takes no room
    content.add_encoded(encoded_sample(i), i, {1, 1, 3}, std::to_string(i));
    images.bytes.resize(images.bytes.size() + kFiller - images.bytes.size() % kFiller);
    images.offsets.back() = std::ssize(images.bytes);
  }
  content.add_encoded(encoded_sample(40), 6, {1, 1, 3}, "last");
  ShardInfo info = write_shard(folder.path() / shard_file_name("train", 0, 1), content);
  EXPECT_GT(info.bytes, std::int64_t{1} << 31);
  write_manifest(ShardTable(folder.path().string(), "train", spec, {info}));
  content = ShardContent();

  const auto dataset = open_dataset(folder.path().string());
  RawSamples out;
  const std::vector<std::int64_t> indices = {6, 4};
  dataset->read(indices, out);
  EXPECT_TRUE(std::ranges::equal(out.sample(0, 0), encoded_sample(40)));
  EXPECT_EQ(labels_of(out), (std::vector<std::int64_t>{6, 4}));
  const auto begin = encoded_sample(4);
  EXPECT_EQ(std::ssize(out.sample(0, 1)), kFiller);
  EXPECT_TRUE(std::ranges::equal(out.sample(0, 1).first(begin.size()), begin));
}

}  // namespace
}  // namespace mn::data
