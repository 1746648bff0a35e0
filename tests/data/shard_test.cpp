// Shards and manifests: what is written is read, also by HDF5's own tools, and every kind of damage is found and named.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/shard_dataset.hpp>
#include <mn/data/shard_writer.hpp>

#include "data/convert.hpp"
#include "data/inspect.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

std::byte value_of(std::int64_t sample, std::int64_t i) { return static_cast<std::byte>(sample * 31 + i * 7); }

/// n samples {3, 5} of bytes that name their sample; labels 0 … 4.
std::shared_ptr<MemoryDataset> make_fixed(std::int64_t n) {
  SampleSpec spec;
  spec.shape = {3, 5};
  spec.num_classes = 5;
  spec.class_names = {"a", "b", "ç", "d", "e"};
  RawSamples samples;
  for (std::int64_t s = 0; s < n; ++s) {
    for (std::int64_t i = 0; i < 15; ++i) samples.bytes.push_back(value_of(s, i));
    samples.labels.push_back(s % 5);
  }
  return std::make_shared<MemoryDataset>(spec, std::move(samples));
}

std::vector<std::byte> encoded_sample(std::int64_t sample) {
  std::vector<std::byte> bytes(10 + sample % 97 * 13);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = value_of(sample, static_cast<std::int64_t>(i));
  return bytes;
}

/// Three shards of 20, 1 and 30 encoded samples.
ShardTable make_encoded(const std::filesystem::path& folder) {
  SampleSpec spec;
  spec.kind = SampleKind::kEncoded;
  spec.num_classes = 51;
  std::vector<ShardInfo> shards;
  std::int64_t sample = 0;
  for (const std::int64_t count : {20, 1, 30}) {
    ShardContent content;
    content.kind = SampleKind::kEncoded;
    for (std::int64_t i = 0; i < count; ++i, ++sample) {
      content.add_encoded(encoded_sample(sample), static_cast<std::int32_t>(sample), {10, 20, 3},
                          "key-" + std::to_string(sample));
    }
    shards.push_back(write_shard(folder / shard_name("train", shards.size(), 3), content));
  }
  ShardTable table(folder.string(), "train", spec, shards);
  write_manifest(table);
  return table;
}

ShardTable make_fixed_shards(const std::filesystem::path& folder, std::int64_t n) {
  return write_fixed_dataset(*make_fixed(n), {.out = folder, .split = "train", .shard_bytes = 128 * 15}, {});
}

class Shards : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "shards";
  RawSamples out_;
};

TEST_F(Shards, FixedSamplesComeBack) {
  const ShardTable written = make_fixed_shards(path_, 1000);
  EXPECT_EQ(written.shards().size(), 8u);
  const auto dataset = open_dataset(path_.string());
  EXPECT_EQ(dataset->size(), 1000);
  EXPECT_EQ(dataset->spec(), make_fixed(1)->spec());
  const std::vector<std::int64_t> indices = {0, 999, 127, 128, 63, 64, 500, 500, 3};
  dataset->read(indices, out_);
  for (std::size_t k = 0; k < indices.size(); ++k) {
    EXPECT_EQ(out_.labels[k], indices[k] % 5);
    EXPECT_EQ(out_.sample(k).size(), 15u);
    for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(out_.sample(k)[i], value_of(indices[k], i));
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
    EXPECT_EQ(out_.labels[k], indices[k]);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out_.sample(k).begin(), out_.sample(k).end()));
  }
  const auto extracted = extract_sample(written, 20);
  EXPECT_EQ(extracted.bytes, encoded_sample(20));
  EXPECT_EQ(extracted.key, "key-20");
}

TEST_F(Shards, EqualContentGivesEqualFiles) {
  make_fixed_shards(folder_.path() / "a", 200);
  make_fixed_shards(folder_.path() / "b", 200);
  const std::string name = shard_name("train", 0, 2);
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
  const std::int64_t metadata = 4096 + 4 * 128 + 4 * 2;  // header, labels, checksums
  EXPECT_EQ(dataset->io().bytes, 2 * (metadata + 64 * 15)) << "one block of 64 each, once";
}

TEST_F(Shards, FewOpenFilesAndLittleMemoryAreEnough) {
  make_fixed_shards(path_, 1280);
  const ShardDataset dataset(path_.string(), {.open_shards = 2, .cache_bytes = 1});
  for (std::int64_t i = 0; i < 1280; i += 37) {
    const std::int64_t index = i * 769 % 1280;
    dataset.read(std::span(&index, 1), out_);
    EXPECT_EQ(out_.labels[0], index % 5);
    EXPECT_EQ(out_.bytes[14], value_of(index, 14));
  }
}

TEST_F(Shards, HdfToolsReadThem) {
  std::filesystem::create_directories(path_);
  make_encoded(path_);
  if (std::system("command -v h5dump >/dev/null") != 0) GTEST_SKIP() << "h5dump is not installed: cmake/setup --tests";
  const std::string file = (path_ / shard_name("train", 2, 3)).string();
  const std::string out = (folder_.path() / "dump").string();
  ASSERT_EQ(std::system(("h5dump -d /data/bytes -b LE -o " + out + " " + file + " >/dev/null").c_str()), 0);
  std::string expected;
  for (std::int64_t s = 21; s < 51; ++s) {
    const auto bytes = encoded_sample(s);
    expected.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  EXPECT_EQ(read_file(out), expected);
  ASSERT_EQ(std::system(("h5dump -d /data/label -y -w 0 " + file + " > " + out).c_str()), 0);
  EXPECT_THAT(read_file(out), HasSubstr("21, 22, 23"));
  EXPECT_EQ(std::system(("h5dump -H " + (path_ / kManifestName).string() + " >/dev/null").c_str()), 0);
}

TEST_F(Shards, AFlippedByteInASampleIsFoundWhenItIsRead) {
  std::filesystem::create_directories(path_);
  const ShardTable table = make_encoded(path_);
  const OpenShard shard = open_shard(table, 0);
  const std::uint64_t third = encoded_sample(0).size() + encoded_sample(1).size() + encoded_sample(2).size();
  test::flip_byte(table.path(0), shard.header.at(Section::kBytes).address + third + 4);

  const auto dataset = open_dataset(path_.string());
  const std::vector<std::int64_t> indices = {2, 3, 4};
  EXPECT_THAT(message_of<DataError>([&] { dataset->read(indices, out_); }),
              AllOf(HasSubstr(table.path(0).string()), HasSubstr("sample 3 is damaged"), HasSubstr("mnshard verify")));
  std::vector<SampleError> damaged;
  dataset->read(indices, out_, &damaged);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged[0].position, 1);
  EXPECT_EQ(out_.sample(1).size(), 0u);
  EXPECT_EQ(out_.sample(2).size(), encoded_sample(4).size());
  EXPECT_EQ(out_.labels, (std::vector<std::int64_t>{2, 3, 4}));

  const VerifyReport report = verify_dataset(table, 2);
  ASSERT_EQ(report.damage.size(), 1u);
  EXPECT_EQ(report.damage[0].sample, 3);
}

TEST_F(Shards, AFlippedByteInAFixedBlockIsFoundWhenItIsRead) {
  const ShardTable table = make_fixed_shards(path_, 300);
  const OpenShard shard = open_shard(table, 1);
  test::flip_byte(table.path(1), shard.header.at(Section::kBytes).address + 70 * 15);
  const auto dataset = open_dataset(path_.string());
  const std::vector<std::int64_t> indices = {5, 128, 128 + 64};
  std::vector<SampleError> damaged;
  dataset->read(indices, out_, &damaged);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged[0].position, 2);
  EXPECT_THROW(dataset->read(indices, out_), DataError);
  EXPECT_THAT(verify_dataset(table, 1).damage.at(0).what, HasSubstr("samples 64 to 127"));
}

TEST_F(Shards, DamagedMetadataIsNamedAtFirstUse) {
  std::filesystem::create_directories(path_);
  const ShardTable table = make_encoded(path_);
  const ShardHeader header = open_shard(table, 2).header;
  const std::int64_t index = 40;
  for (const Section section : {Section::kLabel, Section::kOffsets, Section::kCrc}) {
    const std::uint64_t address = header.at(section).address + 8;
    test::flip_byte(table.path(2), address);
    EXPECT_THAT(message_of<DataError>([&] { open_dataset(path_.string())->read(std::span(&index, 1), out_); }),
                AllOf(HasSubstr(table.path(2).string()), HasSubstr(name_of(section, SampleKind::kEncoded))));
    test::flip_byte(table.path(2), address);
  }
  EXPECT_NO_THROW(open_dataset(path_.string())->read(std::span(&index, 1), out_));
}

TEST_F(Shards, WrongShardsAreNamedBeforeAnySampleIsRead) {
  const ShardTable table = make_fixed_shards(path_, 300);
  const auto file = table.path(1);
  const std::string good = read_file(file);
  const auto use = [&] { return message_of<DataError>([&] { (void)open_dataset(path_.string())->size(); }); };

  test::flip_byte(file, 100);
  EXPECT_THAT(use(), AllOf(HasSubstr(file.string()), HasSubstr("header is damaged")));
  write_file(file, good.substr(0, good.size() - 10));
  EXPECT_THAT(use(), AllOf(HasSubstr(file.string()), HasSubstr("truncated")));
  write_file(file, good.substr(0, 100));
  EXPECT_THAT(use(), AllOf(HasSubstr(file.string()), HasSubstr("truncated or not a shard")));
  write_file(file, std::string(5000, 'x'));
  EXPECT_THAT(use(), AllOf(HasSubstr(file.string()), HasSubstr("is not a shard")));
  write_file(file, read_file(table.path(0)));
  EXPECT_THAT(use(), AllOf(HasSubstr(file.string()), HasSubstr("changed after the manifest"), HasSubstr("uuid")));
  std::filesystem::remove(file);
  EXPECT_THAT(use(), AllOf(HasSubstr(file.string()), HasSubstr("No such file")));
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(use(), AllOf(HasSubstr(file.string()), HasSubstr("no regular file")));
  std::filesystem::remove(file);
  write_file(file, good);
  EXPECT_EQ(use(), "");
}

TEST_F(Shards, AChangedShardIsNamedWhileReading) {
  const ShardTable table = make_fixed_shards(path_, 300);
  const auto dataset = open_dataset(path_.string());
  EXPECT_EQ(dataset->size(), 300);
  write_file(table.path(1), read_file(table.path(0)));
  const std::int64_t index = 130;
  EXPECT_THAT(message_of<DataError>([&] { dataset->read(std::span(&index, 1), out_); }), HasSubstr("was changed"));
}

TEST_F(Shards, DamagedManifestsAreNamed) {
  make_fixed_shards(path_, 300);
  const auto file = path_ / kManifestName;
  const std::string good = read_file(file);
  const auto use = [&] { return message_of<DataError>([&] { (void)read_manifest(path_); }); };
  EXPECT_EQ(use(), "");
  for (std::size_t at = 0; at < good.size(); at += at < 24 ? 1 : 97) {
    if (at >= 24 && at < 512) continue;  // the unused rest of the user block
    test::flip_byte(file, at);
    EXPECT_THAT(use(), HasSubstr("manifest.h5 is damaged")) << "byte " << at;
    test::flip_byte(file, at);
  }
  write_file(file, good.substr(0, good.size() / 2));
  EXPECT_THAT(use(), HasSubstr("manifest.h5 is damaged"));
  write_file(file, "nothing");
  EXPECT_THAT(use(), HasSubstr("manifest.h5 is damaged"));
  std::filesystem::remove(file);
  EXPECT_THAT(use(), AllOf(HasSubstr("no shards"), HasSubstr("mnshard")));
}

TEST_F(Shards, EqualTablesAreEqualFiles) {
  const ShardTable table = make_fixed_shards(path_, 300);
  const std::string first = read_file(path_ / kManifestName);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5's times are in seconds
  write_manifest(table);
  EXPECT_EQ(read_file(path_ / kManifestName), first);
}

TEST_F(Shards, ATableSurvivesTheWireAndGarbageDoesNot) {
  const ShardTable table = make_fixed_shards(path_, 300);
  const std::string bytes = table.serialize();
  const ShardTable parsed = ShardTable::parse(bytes);
  EXPECT_EQ(parsed.shards(), table.shards());
  EXPECT_EQ(parsed.spec(), table.spec());
  EXPECT_EQ(parsed.hash(), table.hash());
  EXPECT_THROW((void)ShardTable::parse(bytes.substr(0, bytes.size() / 2)), DataError);
  EXPECT_THROW((void)ShardTable::parse("garbage"), DataError);
  for (const char nested : {'\x81', '\x96', '\x7f', '\x5f'}) {  // arrays, and texts in pieces, within each other
    EXPECT_THROW((void)ShardTable::parse(std::string(10'000'000, nested)), DataError) << +nested;
  }
}

TEST_F(Shards, WritesNothingIntoAnExistingDataset) {
  make_fixed_shards(path_, 100);
  EXPECT_THAT(message_of<UsageError>([&] { make_fixed_shards(path_, 100); }), HasSubstr("holds a dataset already"));
}

TEST_F(Shards, AFailedWriteLeavesNothingBehind) {
  ShardContent content;
  content.shape = {1};
  content.bytes.resize(1 << 20);
  content.labels.resize(1 << 20);
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

  ShardContent content;
  content.kind = SampleKind::kEncoded;
  content.bytes.reserve(kFillers * kFiller + (1 << 20));
  for (int i = 0; i < kFillers; ++i) {  // memory that nobody writes to takes no room
    content.add_encoded(encoded_sample(i), i, {1, 1, 3}, std::to_string(i));
    content.bytes.resize(content.bytes.size() + kFiller - content.bytes.size() % kFiller);
    content.offsets.back() = content.bytes.size();
  }
  content.add_encoded(encoded_sample(40), 6, {1, 1, 3}, "last");
  ShardInfo info = write_shard(folder.path() / shard_name("train", 0, 1), content);
  EXPECT_GT(info.bytes, std::int64_t{1} << 31);
  SampleSpec spec;
  spec.kind = SampleKind::kEncoded;
  spec.num_classes = 7;
  write_manifest(ShardTable(folder.path().string(), "train", spec, {info}));
  content = {};

  const auto dataset = open_dataset(folder.path().string());
  RawSamples out;
  const std::vector<std::int64_t> indices = {6, 4};
  dataset->read(indices, out);
  EXPECT_TRUE(std::ranges::equal(out.sample(0), encoded_sample(40)));
  EXPECT_EQ(out.labels, (std::vector<std::int64_t>{6, 4}));
  const auto begin = encoded_sample(4);
  EXPECT_EQ(out.offsets[2] - out.offsets[1], kFiller);
  EXPECT_TRUE(std::ranges::equal(out.sample(1).first(begin.size()), begin));
}

TEST(OpenDataset, ListsWhereItLooked) {
  EXPECT_THAT(message_of<DataError>([] { (void)open_dataset("no/such")->size(); }),
              AllOf(HasSubstr("\"no/such\""), HasSubstr("data/no/such"), HasSubstr("mnshard")));
}

TEST(OpenDataset, TouchesNoFileUntilUsed) { EXPECT_NO_THROW((void)open_dataset("no/such")); }

TEST(OpenDataset, LooksInMnData) {
  const test::TemporaryFolder folder;
  make_fixed_shards(folder.path() / "job/train", 70);
  setenv("MN_DATA", folder.path().c_str(), 1);
  EXPECT_EQ(open_dataset("job/train")->size(), 70);
  unsetenv("MN_DATA");
}

TEST(Dataset, RefusesIndicesOutOfRange) {
  RawSamples out;
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{10}}) {
    EXPECT_THROW(make_fixed(10)->read(std::span(&bad, 1), out), ArgumentError);
  }
}

TEST(MemoryDataset, RefusesBytesThatDoNotFit) {
  SampleSpec spec;
  spec.shape = {4};
  RawSamples samples;
  samples.bytes.resize(7);
  samples.labels = {0, 1};
  EXPECT_THROW(MemoryDataset(spec, samples), ArgumentError);
}

TEST(EmptyDataset, HasTheSizeAndNoByte) {
  const auto empty = create_empty_dataset(*make_fixed(10));
  RawSamples out;
  const std::vector<std::int64_t> indices = {0, 9};
  empty->read(indices, out);
  EXPECT_EQ(empty->size(), 10);
  EXPECT_EQ(out.size(), 2);
  EXPECT_TRUE(out.bytes.empty());
}

}  // namespace
}  // namespace mn::data
