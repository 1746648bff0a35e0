// Every kind of damage of a shard is found and named.
#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/shard_reader.hpp>

#include "data/verify.hpp"
#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(Shards, AFlippedByteInASampleIsFoundWhenItIsRead) {
  std::filesystem::create_directories(path_);
  const ShardTable table = make_encoded(path_);
  const OpenShard shard = open_shard(table, 0);
  const std::uint64_t third = encoded_sample(0).size() + encoded_sample(1).size() + encoded_sample(2).size();
  test::flip_byte(table.path(0), shard.header.fields[0].values.address + third + 4);

  const auto dataset = open_dataset(path_.string());
  const std::vector<std::int64_t> indices = {2, 3, 4};
  EXPECT_THAT(message_of<DataError>([&] { dataset->read(indices, out_); }),
              AllOf(HasSubstr(table.path(0).string()), HasSubstr("sample 3 from key-3 is damaged"),
                    HasSubstr("mnshard verify")));
  EXPECT_EQ(dataset->where(21), table.path(2).string() + ": sample 0 from key-21");
  std::vector<SampleError> damaged;
  dataset->read(indices, out_, &damaged);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged[0].position, 1);
  EXPECT_EQ(out_.sample(0, 1).size(), 0u);
  EXPECT_EQ(out_.sample(0, 2).size(), encoded_sample(4).size());
  EXPECT_EQ(labels_of(out_), (std::vector<std::int64_t>{2, 3, 4}));

  const auto damage = verify_dataset(table, 2);
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_THAT(damage[0], HasSubstr(": sample 3 from key-3 is damaged (the checksum of image differs)"));
}

TEST_F(Shards, AFlippedByteInAFixedBlockIsFoundWhenItIsRead) {
  const ShardTable table = make_fixed_shards(path_, 23, 20'000);  // blocks of 4: 16 and 7 samples
  const OpenShard shard = open_shard(table, 1);
  EXPECT_EQ(shard.header.block_samples, 4);
  test::flip_byte(table.path(1), shard.header.fields[0].values.address + 5 * 20'000);
  const auto dataset = open_dataset(path_.string());
  const std::vector<std::int64_t> indices = {5, 20, 22, 19, 16};  // samples 20 to 22 are one block
  std::vector<SampleError> damaged;
  dataset->read(indices, out_, &damaged);
  ASSERT_EQ(damaged.size(), 2u);
  EXPECT_EQ(damaged[0].position, 1);
  EXPECT_EQ(damaged[1].position, 2);
  EXPECT_EQ(out_.sample(0, 2)[7], std::byte{0});
  EXPECT_EQ(out_.sample(0, 3)[7], value_of(19, 7));
  EXPECT_EQ(out_.sample(0, 4)[7], value_of(16, 7));
  EXPECT_THROW(dataset->read(indices, out_), DataError);
  EXPECT_THAT(verify_dataset(table, 1).at(0), HasSubstr("samples 4 to 6"));
}

TEST_F(Shards, DamageAmongNeighborsThatAreReadTogether) {
  std::filesystem::create_directories(path_);
  const ShardTable table = make_encoded(path_);
  const OpenShard shard = open_shard(table, 0);
  for (const std::int64_t sample : {2, 5}) {
    std::uint64_t at = shard.header.fields[0].values.address;
    for (std::int64_t s = 0; s < sample; ++s) at += encoded_sample(s).size();
    test::flip_byte(table.path(0), at);
  }
  std::vector<std::int64_t> indices = {1, 2, 3, 4, 5, 6};
  std::vector<SampleError> damaged;
  open_dataset(path_.string())->read(indices, out_, &damaged);
  ASSERT_EQ(damaged.size(), 2u);
  for (std::int64_t k = 0; k < 6; ++k) {
    const auto expected = k == 1 || k == 4 ? std::vector<std::byte>() : encoded_sample(indices[k]);
    EXPECT_TRUE(std::ranges::equal(out_.sample(0, k), expected)) << k;
  }
}

TEST_F(Shards, DamagedMetadataIsNamedAtFirstUse) {
  std::filesystem::create_directories(path_);
  const ShardTable table = make_encoded(path_);
  const ShardHeader header = open_shard(table, 2).header;
  const std::int64_t index = 40;
  const std::pair<Extent, const char*> parts[] = {{header.fields[1].values, "field label"},
                                                  {header.fields[0].offsets, "offsets of field image"},
                                                  {header.fields[0].checksums, "checksums of field image"}};
  for (const auto& [extent, name] : parts) {
    const std::uint64_t address = extent.address + 8;
    test::flip_byte(table.path(2), address);
    EXPECT_THAT(message_of<DataError>([&] { open_dataset(path_.string())->read(std::span(&index, 1), out_); }),
                AllOf(HasSubstr(table.path(2).string()), HasSubstr(name)));
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
  EXPECT_THAT(use(), AllOf(HasSubstr(file.string()), HasSubstr("not a regular file")));
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

}  // namespace
}  // namespace mn::data
