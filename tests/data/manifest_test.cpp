// Manifests: damage is found and named, tables survive the wire, and datasets are found by name.
#include <chrono>
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/data/manifest.hpp>

#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(Shards, DamagedManifestsAreNamed) {
  make_fixed_shards(path_, 300);
  const auto file = path_ / kDatasetManifest;
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
  const std::string first = read_file(path_ / kDatasetManifest);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5's times are in seconds
  write_manifest(table);
  EXPECT_EQ(read_file(path_ / kDatasetManifest), first);
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

TEST(ShardTable, KeepsTheHashThatCheckpointsHold) {
  const SampleSpec spec = labeled({.kind = FieldKind::kEncoded}, 3, {"a", "b", "c"});
  const ShardInfo shard{.file = "a.h5", .num_samples = 3, .bytes = 100, .uuid = {}, .header_crc = 5};
  EXPECT_EQ(ShardTable("any", "train", spec, {shard}).hash(), 0xF446B40FF6CCB6E2U);
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

}  // namespace
}  // namespace mn::data
