// Shards of earlier versions, as these wrote them: they are read, and keep the hashes that are in checkpoints.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/data/shard_reader.hpp>
#include <mn/data/stored_dataset.hpp>

#include "data/inspect.hpp"
#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

using testing::HasSubstr;

const std::filesystem::path kHere = std::filesystem::path(__FILE__).parent_path();

// Made when all blocks had 64 samples.
TEST_F(Shards, ShardsOfVersion1AreRead) {
  const std::filesystem::path old = kHere / "version1";
  const ShardTable table = read_manifest(old);
  EXPECT_EQ(table.form().block_samples, 64);
  EXPECT_EQ(table.hash(), 10477253212180169424U) << "checkpoints hold it";
  const StoredDataset dataset(old.string());
  ASSERT_EQ(dataset.size(), 130);
  for (const std::int64_t index : {0, 63, 64, 127, 128, 129}) {
    dataset.read(std::span(&index, 1), out_);
    EXPECT_EQ(labels_of(out_)[0], index % 5);
    for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(out_.columns[0].bytes[i], value_of(index, i));
  }
  EXPECT_EQ(dataset.io().bytes, 4096 + 130 * 4 + 3 * 4 + 130 * 15);
  EXPECT_TRUE(verify_dataset(table, 1).damage.empty());

  std::filesystem::copy(old, path_);
  test::flip_byte(path_ / table.shards()[0].file, open_shard(table, 0).header.fields[0].values.address + 70 * 15);
  EXPECT_THAT(verify_dataset(read_manifest(path_), 1).damage.at(0).what, HasSubstr("samples 64 to 127"));
}

TEST_F(Shards, OfVersion3AreReadAsBefore) {
  // What docs/data's program of fields wrote before blocks were cut by bytes.
  const std::filesystem::path old = kHere / "version3";
  const StoredDataset dataset(old.string());
  ASSERT_EQ(dataset.size(), 1000);
  for (const std::int64_t index : {0, 1, 360, 997, 999}) {
    dataset.read(std::span(&index, 1), out_);
    std::vector<std::int32_t> divisors;
    for (int d = 1; d <= index; ++d) {
      if (index % d == 0) divisors.push_back(d);
    }
    const auto found = out_.columns[0].values<std::int32_t>();
    EXPECT_EQ(std::vector<std::int32_t>(found.begin(), found.end()), divisors);
    EXPECT_EQ(out_.columns[1].values<float>()[0], static_cast<float>(index));
  }
  EXPECT_TRUE(verify_dataset(read_manifest(old), 1).damage.empty());
}

TEST(OldShards, OfVersion2AreReadAndKeepTheirHash) {
  const ShardTable table = read_manifest(kHere / "version2");
  EXPECT_EQ(table.hash(), 7559537700629168632U);
  EXPECT_EQ(table.spec(), labeled({.dtype = DType::kFloat32, .shape = {2}}, 2));
  EXPECT_TRUE(verify_dataset(table, 1).damage.empty());
  RawSamples out;
  const std::int64_t indices[] = {0, 999};
  open_dataset((kHere / "version2").string())->read(indices, out);
  EXPECT_EQ(out.columns[0].values<float>()[0], 1.0F);
  EXPECT_TRUE(std::ranges::equal(out.columns[1].values<std::int64_t>(), std::vector<std::int64_t>{0, 1}));
}

TEST(OldShards, OfImagesAreReadAndKeepTheirHash) {
  const ShardTable table = read_manifest(kHere / "version1_images");
  EXPECT_EQ(table.hash(), 704892477105321945U);
  EXPECT_EQ(table.spec(), labeled({.kind = FieldKind::kEncoded}, 2, {"a", "b"}));
  EXPECT_TRUE(verify_dataset(table, 1).damage.empty());
  std::set<std::string> keys;
  for (std::int64_t i = 0; i < table.num_samples(); ++i) {
    const auto sample = extract_sample(table, i);
    keys.insert(sample.key);
    EXPECT_EQ(sample.label, sample.key.starts_with("a/") ? 0 : 1);
    EXPECT_GT(sample.bytes.size(), 100u);
  }
  EXPECT_EQ(keys, (std::set<std::string>{"a/gray.jpg", "a/ycc420.jpg", "b/rgb.jpg", "b/rgb.png"}));
}

}  // namespace
}  // namespace mn::data
