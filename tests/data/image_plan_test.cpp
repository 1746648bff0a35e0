// The list of images on disk.
#include "data/image_plan.hpp"

#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include "data/find_images.hpp"
#include "tests/support/resident_bytes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

std::string key_of(std::int64_t i) {
  return "class-" + std::to_string(i % 1000) + "/image-" + std::to_string(i) + ".jpg";
}

TEST(ImagePlanTest, EveryImageIsInOneShardOfAboutTheWantedSize) {
  for (const bool shuffle : {false, true}) {
    const test::TemporaryFolder folder;
    const ImageDivision division{.shuffle = shuffle, .seed = 3, .shard_bytes = 1000};
    ImagePlanWriter writer(folder.path());
    for (std::int64_t i = 0; i < 500; ++i) writer.add(key_of(i), static_cast<std::int32_t>(i % 7), 10 + i % 90);
    writer.finish(division);
    const ImagePlan plan(folder.path(), division);
    std::set<std::string> keys;
    for (std::size_t shard = 0; shard < plan.shards(); ++shard) {
      std::int64_t bytes = 0;
      const auto images = plan.images_of(shard);
      EXPECT_EQ(static_cast<std::int64_t>(images.size()), plan.images_in(shard));
      for (const ImageFile& image : images) {
        const std::int64_t i = std::stoll(image.key.substr(image.key.rfind('-') + 1));
        EXPECT_EQ(image.key, key_of(i));
        EXPECT_EQ(image.label, i % 7);
        bytes += 10 + i % 90;
        keys.insert(image.key);
      }
      EXPECT_LE(bytes, 1000);
      if (shard + 1 < plan.shards()) {
        EXPECT_GT(bytes, 1000 - 100);
      }
    }
    EXPECT_EQ(keys.size(), 500u);
    EXPECT_EQ(plan.images_of(0)[0].key == key_of(0), !shuffle);
  }
}

TEST(ImagePlanTest, ALargerImageIsAloneInItsShard) {
  const test::TemporaryFolder folder;
  const ImageDivision division{.shuffle = false, .seed = 0, .shard_bytes = 100};
  ImagePlanWriter writer(folder.path());
  for (const std::int64_t bytes : {50, 500, 50, 50}) writer.add("k", 0, bytes);
  writer.finish(division);
  const ImagePlan plan(folder.path(), division);
  ASSERT_EQ(plan.shards(), 3u);
  EXPECT_EQ(plan.images_in(1), 1);
}

// MN_TEST_IMAGES=100000000 shows what 100 M images need: 0.4 GB, and 6 GB of disk.
TEST(ImagePlanTest, MemoryIsAFewBytesAnImage) {
  const char* wanted = std::getenv("MN_TEST_IMAGES");
  const std::int64_t images = wanted == nullptr ? 1'000'000 : std::atoll(wanted);
  const test::TemporaryFolder folder;
  const ImageDivision division;
  test::reset_peak_bytes();
  const std::int64_t before = test::peak_bytes();
  {
    ImagePlanWriter writer(folder.path());
    for (std::int64_t i = 0; i < images; ++i) writer.add(key_of(i), static_cast<std::int32_t>(i % 1000), 12000);
    writer.finish(division);
  }
  const ImagePlan plan(folder.path(), division);
  EXPECT_EQ(plan.size(), images);
  EXPECT_EQ(plan.images_of(plan.shards() / 2).size(), std::size_t{(256 << 20) / 12000});
  const std::int64_t grown = test::peak_bytes() - before;
  RecordProperty("peak_bytes", std::to_string(grown));
  EXPECT_LT(grown, images * 6 + (48 << 20)) << "of strings it would be 64 bytes an image at least";
}

TEST(FolderNamesTest, NamesAreSortedAndHiddenOnesLeftOut) {
  const test::TemporaryFolder folder;
  for (const char* name : {"b", "a10", "a9", "A", ".hidden", "ü"}) test::write_text(folder.path() / name, "");
  fs::create_directories(folder.path() / "z");
  fs::create_directories(folder.path() / ".git");
  fs::create_directory_symlink("z", folder.path() / "link");
  fs::create_symlink("nowhere", folder.path() / "gone");
  const FolderNames names = list_names(folder.path());
  EXPECT_EQ(names.files, (std::vector<std::string>{"A", "a10", "a9", "b", "gone", "ü"}));
  EXPECT_EQ(names.folders, (std::vector<std::string>{"link", "z"}));
}

}  // namespace
}  // namespace mn::data
