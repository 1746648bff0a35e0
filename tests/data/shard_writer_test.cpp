// Datasets by mn::ShardWriter.
#include <gmock/gmock.h>

#include <mn/core/error.hpp>
#include <mn/data/shard_writer.hpp>

#include "data/extract.hpp"
#include "data/verify.hpp"
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
  EXPECT_FALSE(std::filesystem::exists(out_ / data::kDatasetManifest));
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
  EXPECT_TRUE(data::verify_dataset(table, 1).empty());
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
  EXPECT_TRUE(data::verify_dataset(table, 1).empty());
}

TEST_F(ShardWriterTest, ALongSampleIsReadByItself) {
  const SampleSpec spec = {{{.name = "text", .kind = FieldKind::kVariable}, {.name = "number"}}};
  ShardWriter writer(out_, spec, {.shard_bytes = 4 << 20});
  const auto bytes_of = [](std::int64_t i) { return i < 4500 ? 1000 + i % 7 : (1 << 20) + i; };
  for (std::int64_t i = 0; i < 4510; ++i) {
    const std::vector<std::uint8_t> text(bytes_of(i), static_cast<std::uint8_t>(i));
    const auto number = static_cast<std::uint8_t>(i % 251);
    writer.add({text, std::span(&number, 1)});
  }
  writer.finish();
  RawSamples out;
  for (const auto& [sample, most] :
       {std::pair<std::int64_t, std::int64_t>{4505, (1 << 20) + (100 << 10)}, {2000, (128 << 10) + (100 << 10)}}) {
    const auto dataset = open_dataset(out_.string());
    dataset->read(std::span(&sample, 1), out);
    EXPECT_EQ(out.sample(0, 0).size(), bytes_of(sample));
    EXPECT_EQ(out.sample(0, 0).back(), static_cast<std::byte>(sample));
    EXPECT_EQ(out.sample(1, 0)[0], static_cast<std::byte>(sample % 251));
    EXPECT_LE(dataset->io().bytes, most) << "sample " << sample;
  }
  // Neighbors that fit into a block are read together, and once.
  const auto dataset = open_dataset(out_.string());
  for (std::int64_t sample = 0; sample < 1000; ++sample) dataset->read(std::span(&sample, 1), out);
  EXPECT_LE(dataset->io().bytes, 1000 * 1007 + (300 << 10));
  EXPECT_TRUE(data::verify_dataset(data::read_manifest(out_), 1).empty());
}

TEST_F(ShardWriterTest, WithoutFinishThereIsNoDataset) {
  {
    ShardWriter writer(out_, pairs());
    add_pair(writer, 1);
  }
  EXPECT_FALSE(std::filesystem::exists(out_ / data::kDatasetManifest));
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
