// Samples of named fields, in shards.
#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/data/shard_content.hpp>
#include <mn/data/shard_format.hpp>
#include <mn/data/shard_reader.hpp>
#include <mn/data/stored_dataset.hpp>

#include "data/extract.hpp"
#include "data/verify.hpp"
#include "tests/data/field_kinds.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

using test::all_kinds;
using test::field_bytes;
using test::Kind;
using test::message_of;
using test::with_fields;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSamples = 103;
constexpr std::int64_t kShardBytes = 500;

/// The text in a shard's or manifest's header.
std::uint32_t version_of(const std::filesystem::path& file) {
  std::uint32_t version = 0;
  File(file, File::Mode::kRead).read_at(8, std::as_writable_bytes(std::span(&version, 1)));
  return version;
}

class Fields : public testing::Test {
 protected:
  /// A dataset of its own for each kind.
  std::filesystem::path write(const Kind& kind) {
    const auto folder = folder_.path() / std::to_string(next_++);
    const std::int64_t bytes = std::max(kShardBytes, 10 * kind.spec.sample_bytes());
    test::write_kind(folder, kind.spec, kSamples, bytes);
    return folder;
  }

  static Kind kind(std::string_view name) {
    const auto kinds = all_kinds();
    return *std::ranges::find(kinds, name, &Kind::name);
  }

  static void expect_samples(const Dataset& dataset, const SampleSpec& spec) {
    std::vector<std::int64_t> indices(kSamples);
    for (std::int64_t k = 0; k < kSamples; ++k) indices[k] = k * 41 % kSamples;
    indices.insert(indices.end(), {3, 3, 4, 5, 6});
    RawSamples out;
    dataset.read(indices, out);
    ASSERT_EQ(out.size(), std::ssize(indices));
    for (std::int64_t k = 0; k < out.size(); ++k) {
      for (std::size_t f = 0; f < spec.fields.size(); ++f) {
        EXPECT_TRUE(std::ranges::equal(out.sample(f, k), field_bytes(spec, f, indices[k])))
            << spec[f].name << " of sample " << indices[k];
      }
    }
  }

  test::TemporaryFolder folder_;
  int next_ = 0;
};

TEST_F(Fields, ComeBackFromShards) {
  for (const Kind& kind : all_kinds()) {
    SCOPED_TRACE(kind.name);
    const auto folder = write(kind);
    const ShardTable table = read_manifest(folder);
    EXPECT_GT(table.shards().size(), 1u);
    EXPECT_EQ(table.spec(), kind.spec);
    for (const ShardInfo& shard : table.shards()) EXPECT_EQ(version_of(folder / shard.file), kShardVersion);
    EXPECT_EQ(version_of(folder / kDatasetManifest), 2U);
    const ShardTable parsed = ShardTable::parse(table.serialize());
    EXPECT_EQ(parsed.hash(), table.hash());
    EXPECT_EQ(parsed.spec(), table.spec());
    EXPECT_EQ(parsed.block_samples(), table.block_samples());
    expect_samples(*open_dataset(folder.string()), kind.spec);
    expect_samples(*open_table(table.serialize()), kind.spec);
    const auto damage = verify_dataset(table, 2);
    EXPECT_TRUE(damage.empty()) << damage[0];
    for (std::size_t f = 0; f < kind.spec.fields.size(); ++f) {
      EXPECT_EQ(extract_sample(table, 100, f).bytes, field_bytes(kind.spec, f, 100));
    }
  }
}

TEST_F(Fields, ComeBackFromMemoryAndFromAFunction) {
  for (const Kind& kind : all_kinds()) {
    SCOPED_TRACE(kind.name);
    RawSamples samples(kind.spec);
    for (std::int64_t s = 0; s < kSamples; ++s) {
      with_fields(kind.spec, s, [&](const auto& fields) { samples.add(kind.spec, fields); });
    }
    const MemoryDataset memory(kind.spec, samples);
    expect_samples(memory, kind.spec);
    EXPECT_EQ(memory.fingerprint(), MemoryDataset(kind.spec, samples).fingerprint());
    expect_samples(*test::made_kind(kind.spec, kSamples), kind.spec);
  }
}

TEST_F(Fields, BlocksAreReadOnceAndSmallFieldsWithTheHeader) {
  const SampleSpec spec = kind("regression").spec;
  const auto folder = folder_.path() / "one";
  test::write_kind(folder, spec, 10'000, std::int64_t{1} << 20);
  const ShardTable table = read_manifest(folder);
  EXPECT_EQ(table.block_samples(), 3277) << "of 20 bytes: 64 KiB";
  const StoredDataset dataset(folder.string());
  RawSamples out;
  for (const std::int64_t index : {5000, 5001, 3300}) dataset.read(std::span(&index, 1), out);
  EXPECT_EQ(dataset.io().bytes, 4096 + 2 * 4 * 4 + 3277 * 20);

  test::write_kind(folder_.path() / "large", kind("large fields").spec, 4, std::int64_t{1} << 20);
  EXPECT_EQ(read_manifest(folder_.path() / "large").block_samples(), 1);
  const SampleSpec labeled_floats = {
      {{.name = "x", .dtype = DType::kFloat32, .shape = {2}}, {.name = "y", .dtype = DType::kFloat32}}};
  EXPECT_FALSE(is_small(labeled_floats, 1, default_block_samples(labeled_floats)));
  EXPECT_TRUE(is_small(labeled_floats, 1, 4));
}

TEST_F(Fields, ADamagedByteIsFoundInEveryField) {
  for (const Kind& kind : all_kinds()) {
    SCOPED_TRACE(kind.name);
    const auto folder = write(kind);
    const ShardTable table = read_manifest(folder);
    ShardHeader header = open_shard(table, 1).header;
    std::vector<std::int64_t> indices(kSamples);
    std::iota(indices.begin(), indices.end(), 0);
    for (const NamedExtent& part : parts_of(header)) {
      if (part.extent->bytes == 0 || part.name == "/data/hwc" || part.name.starts_with("/data/key_")) continue;
      SCOPED_TRACE(part.name);
      const std::uint64_t at = part.extent->address + part.extent->bytes / 2;
      test::flip_byte(table.path(1), at);
      RawSamples out;
      EXPECT_THAT(message_of<DataError>([&] { open_dataset(folder.string())->read(indices, out); }),
                  AllOf(HasSubstr(table.path(1).string()), HasSubstr("damaged")));
      EXPECT_FALSE(verify_dataset(table, 1).empty());
      if (part.has_checksums) {
        std::vector<SampleError> damaged;
        open_dataset(folder.string())->read(indices, out, &damaged);
        std::set<std::int64_t> positions;
        for (const SampleError& error : damaged) EXPECT_TRUE(positions.insert(error.position).second);
        EXPECT_FALSE(damaged.empty());
        EXPECT_LT(std::ssize(damaged), kSamples);
      }
      test::flip_byte(table.path(1), at);
    }
    EXPECT_TRUE(verify_dataset(table, 1).empty());
  }
}

TEST_F(Fields, NoHeaderIsTooDamagedToBeRefused) {
  const Kind boxes = kind("image and boxes");
  const ShardTable table = read_manifest(write(boxes));
  const std::string file = read_file(table.path(0));
  UserBlock good;
  std::memcpy(good.data(), file.data(), good.size());
  ASSERT_EQ(decode_header(good, "it").spec, without_classes(boxes.spec));
  int refused = 0;
  for (std::size_t at = 0; at + 4 < good.size(); ++at) {
    for (const int change : {1, 0x10, 0x80, 0xFF}) {
      UserBlock bad = good;
      bad[at] ^= static_cast<std::byte>(change);
      EXPECT_THROW((void)decode_header(bad, "it"), DataError) << at;
      const std::uint32_t crc = header_crc(bad);
      std::memcpy(bad.data() + bad.size() - sizeof crc, &crc, sizeof crc);
      try {
        ShardHeader header = decode_header(bad, "it");
        for (const NamedExtent& part : parts_of(header)) {
          EXPECT_LE(part.extent->address + part.extent->bytes, header.file_bytes) << at;
        }
      } catch (const DataError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000) << "magic, version, counts, extents and the description";
}

TEST_F(Fields, WhatDoesNotFitIntoTheHeaderIsAnError) {
  SampleSpec spec;
  for (int i = 0; i < 40; ++i) spec.fields.push_back({.name = "field_number_" + std::to_string(i)});
  EXPECT_THAT(message_of<UsageError>([&] { ShardWriter(folder_.path() / "x", spec); }),
              AllOf(HasSubstr("samples of 40 fields do not fit"), HasSubstr("of 4092")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "x"));
}

TEST_F(Fields, NumbersThatAreNoClassesAreStoredInFull) {
  const SampleSpec spec = labeled({.shape = {2}}, 0);
  const std::int64_t ids[] = {std::int64_t{1} << 40, -7, std::numeric_limits<std::int64_t>::min()};
  const std::uint8_t x[] = {1, 2};
  ShardWriter writer(folder_.path() / "x", spec);
  for (const std::int64_t& id : ids) writer.add({x, std::span(&id, 1)});
  writer.finish();
  const ShardTable table = read_manifest(folder_.path() / "x");
  EXPECT_TRUE(verify_dataset(table, 1).empty());
  RawSamples out;
  const std::int64_t indices[] = {0, 1, 2};
  open_dataset((folder_.path() / "x").string())->read(indices, out);
  EXPECT_TRUE(std::ranges::equal(out.columns[1].values<std::int64_t>(), ids));
}

TEST_F(Fields, VerifyJudgesClassesAlone) {
  // Written as numbers, then described as classes.
  for (const DType dtype :
       {DType::kUInt8, DType::kInt16, DType::kInt64, DType::kUInt16, DType::kUInt32, DType::kUInt64}) {
    SampleSpec spec = {{{.name = "x", .dtype = DType::kFloat64, .shape = {200}}, {.name = "y", .dtype = dtype}}};
    ShardWriter writer(folder_.path() / std::string(name_of(dtype)), spec);
    for (std::int64_t s = 0; s < 20; ++s) with_fields(spec, s, [&](const auto& fields) { writer.add(fields); });
    writer.finish();
    const ShardTable numbers = read_manifest(folder_.path() / std::string(name_of(dtype)));
    EXPECT_TRUE(verify_dataset(numbers, 1).empty());
    spec.fields[1].num_classes = test::kClasses - 1;
    const ShardTable classes(numbers.folder(), "train", spec, numbers.shards(), numbers.block_samples());
    const auto damage = verify_dataset(classes, 1);
    ASSERT_EQ(damage.size(), 4u) << "every fifth";
    EXPECT_THAT(damage[0], HasSubstr("sample 3: its y 4 is not a class")) << "3 * 7 + 3 is 4 modulo 5";
  }
}

TEST_F(Fields, AShardOfOtherFieldsIsRefused) {
  const ShardTable floats = read_manifest(write(kind("regression")));
  SampleSpec other = floats.spec();
  other.fields[1].name = "z";
  const StoredDataset dataset(
      std::make_shared<const ShardTable>(floats.folder(), "train", other, floats.shards(), floats.block_samples()));
  RawSamples out;
  const std::int64_t index = 0;
  EXPECT_THAT(message_of<DataError>([&] { dataset.read(std::span(&index, 1), out); }),
              HasSubstr("another kind of shard"));
}

}  // namespace
}  // namespace mn::data
