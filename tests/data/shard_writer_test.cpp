// Datasets by mn::ShardWriter.
#include <gmock/gmock.h>

#include <mn/core/error.hpp>
#include <mn/data/shard_writer.hpp>

#include "data/inspect.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using test::message_of;
using testing::HasSubstr;

class ShardWriterTest : public testing::Test {
 protected:
  static SampleSpec pairs(std::int64_t classes = kCountClasses) {
    return labeled({.dtype = DType::kInt32, .shape = {2}}, classes);
  }
  static SampleSpec images() { return labeled({.kind = FieldKind::kEncoded}); }
  static void add_pair(ShardWriter& writer, std::int32_t i) {
    const std::int32_t sample[] = {i, -i};
    writer.add(std::as_bytes(std::span(sample)), i % 3);
  }
  test::TemporaryFolder folder_;
  std::filesystem::path out_ = folder_.path() / "data" / "train";
};

TEST_F(ShardWriterTest, FixedSamplesComeBackInOrder) {
  ShardWriter writer(out_, pairs(), {.split = "val", .shard_bytes = 8 * 128});
  for (std::int32_t i = 0; i < 300; ++i) add_pair(writer, i);
  EXPECT_EQ(writer.size(), 300);
  EXPECT_FALSE(std::filesystem::exists(out_ / data::kManifestName));
  writer.finish();
  const data::ShardTable table = data::read_manifest(out_);
  EXPECT_GT(table.shards().size(), 1u);
  EXPECT_EQ(table.num_samples(), 300);
  EXPECT_EQ(table.spec().num_classes(), 3);
  EXPECT_EQ(table.split(), "val");
  for (const std::int32_t i : {0, 127, 128, 299}) {
    const auto sample = data::extract_sample(table, i);
    std::int32_t values[2];
    std::memcpy(values, sample.bytes.data(), sizeof values);
    EXPECT_EQ(values[0], i);
    EXPECT_EQ(values[1], -i);
    EXPECT_EQ(sample.label, i % 3);
  }
  EXPECT_TRUE(data::verify_dataset(table, 1).damage.empty());
  EXPECT_THAT(message_of<ArgumentError>([&] { add_pair(writer, 0); }), HasSubstr("after finish"));
}

TEST_F(ShardWriterTest, ImagesKeepTheirBytesAndKeys) {
  ShardWriter writer(out_, images(), {.shard_bytes = 1000});
  for (int i = 0; i < 50; ++i) {
    const std::string image(40 + i, static_cast<char>('a' + i % 26));
    writer.add(std::as_bytes(std::span(image)), 7,
               {.key = "image-" + std::to_string(i), .height = 4, .width = 5, .channels = 3});
  }
  writer.finish();
  const data::ShardTable table = data::read_manifest(out_);
  EXPECT_GE(table.shards().size(), 3u);
  EXPECT_EQ(table.spec().num_classes(), 8);
  const auto sample = data::extract_sample(table, 49);
  EXPECT_EQ(sample.bytes.size(), 89u);
  EXPECT_EQ(sample.key, "image-49");
  EXPECT_TRUE(data::verify_dataset(table, 1).damage.empty());
}

TEST_F(ShardWriterTest, WithoutFinishThereIsNoDataset) {
  {
    ShardWriter writer(out_, pairs());
    add_pair(writer, 1);
  }
  EXPECT_FALSE(std::filesystem::exists(out_ / data::kManifestName));
  EXPECT_THAT(message_of<DataError>([&] { ShardWriter(out_, pairs()).finish(); }), HasSubstr("no samples"));
}

TEST_F(ShardWriterTest, WhatCannotBeStoredIsAnError) {
  ShardWriter writer(out_, pairs(3));
  const std::vector<std::byte> bytes(8);
  const auto use = [&](std::size_t length, std::int64_t label) {
    return message_of<ArgumentError>([&] { writer.add(std::span(bytes).first(length), label); });
  };
  EXPECT_THAT(use(7, 0), HasSubstr("7 bytes, not 8"));
  EXPECT_THAT(use(8, 3), HasSubstr("label 3 of sample 0 is not in 0 … 2"));
  EXPECT_THAT(use(8, -1), HasSubstr("label -1"));
  EXPECT_EQ(use(8, 2), "");
  writer.finish();
  EXPECT_THAT(message_of<UsageError>([&] { ShardWriter(out_, pairs()); }), HasSubstr("holds"));
  const auto spec_error = [&](SampleSpec spec, const std::string& split) {
    return message_of<UsageError>([&] { ShardWriter(folder_.path() / "x", spec, {.split = split}); });
  };
  EXPECT_THAT(spec_error({{{.name = "x", .shape = {0}}}}, "train"), HasSubstr("no elements"));
  EXPECT_THAT(spec_error({{{.name = "a/b"}}}, "train"), HasSubstr("a/b"));
  EXPECT_THAT(spec_error(labeled({.shape = {1 << 20, 1 << 20}}), "train"), HasSubstr("1 GiB"));
  EXPECT_THAT(spec_error(pairs(), "a/b"), HasSubstr("a/b"));
  ShardWriter wide(folder_.path() / "wide", pairs());
  EXPECT_THAT(message_of<ArgumentError>([&] { wide.add(bytes, std::int64_t{1} << 31); }), HasSubstr("2147483648"));
}

}  // namespace
}  // namespace mn
