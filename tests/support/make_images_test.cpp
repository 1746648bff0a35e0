// Every kind of generated image holds what was drawn, and the program writes the same data set each time.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/image/image_decoder.hpp>

#include "tests/image/compare_images.hpp"
#include "tests/support/folders.hpp"
#include "tests/support/image_kinds.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/textured_image.hpp"

namespace mn::test {
namespace {

namespace fs = std::filesystem;
using data::Image;
using data::mean_difference;

Image gray_of(Image image) {
  for (auto pixel = image.pixels.begin(); pixel != image.pixels.end(); pixel += 3) {
    std::fill_n(pixel, 3, static_cast<std::uint8_t>(0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2] + 0.5));
  }
  return image;
}

bool is_png(const std::vector<std::byte>& file) { return file[1] == std::byte{'P'}; }

struct Expected {
  const char* kind;
  double most_difference;  ///< between what is decoded and what was drawn: by JPEG's quality, or by 216 colors
  std::string format;      ///< JPEG: components and whether progressive; PNG: IHDR's bit depth and color type
};
void PrintTo(const Expected& expected, std::ostream* os) { *os << expected.kind; }

std::string format_of(const std::vector<std::byte>& file) {
  if (is_png(file)) return std::to_string(int(file[24])) + " " + std::to_string(int(file[25]));
  constexpr std::byte kStartOfProgressiveFrame[] = {std::byte{0xff}, std::byte{0xc2}};
  const bool progressive = !std::ranges::search(file, kStartOfProgressiveFrame).empty();
  return std::to_string(data::ImageDecoder().open(file).components) + (progressive ? " progressive" : "");
}

class EveryImageKind : public ::testing::TestWithParam<Expected> {};

TEST_P(EveryImageKind, HoldsWhatWasDrawn) {
  const auto& [name, most_difference, format] = GetParam();
  const ImageKind& kind = find_image_kind(name);
  const Image drawn = draw_textured_image({3, 7, 1}, 120, 90);
  const bool gray = std::string(name).find("gray") != std::string::npos;
  const auto file = kind.encode(drawn, 0);
  EXPECT_EQ(format_of(file), format);
  EXPECT_LT(mean_difference(data::decode_image(file), gray ? gray_of(drawn) : drawn), most_difference);
}

INSTANTIATE_TEST_SUITE_P(Images, EveryImageKind,
                         ::testing::Values(Expected{"baseline", 8, "3"}, Expected{"progressive", 8, "3 progressive"},
                                           Expected{"gray", 5, "1"}, Expected{"cmyk", 5, "4"}, Expected{"ycck", 8, "4"},
                                           Expected{"exif", 8, "3"}, Expected{"png", 0.01, "8 2"},
                                           Expected{"png-rgba", 0.01, "8 6"}, Expected{"png-palette", 20, "8 3"},
                                           Expected{"png-gray", 1, "8 0"}, Expected{"png-16", 0.01, "16 2"},
                                           Expected{"png-as-jpeg", 0.01, "8 2"}),
                         [](const auto& test) {
                           std::string name = test.param.kind;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(ImageKinds, AreAllTested) { EXPECT_EQ(image_kinds().size(), 12u); }

TEST(ImageKinds, ExifImagesAreUprightWhateverTheOrientation) {
  const Image drawn = draw_textured_image({1, 0, 0}, 96, 64);
  for (int index = 0; index < 8; ++index) {
    const auto file = find_image_kind("exif").encode(drawn, index);
    EXPECT_EQ(data::ImageDecoder().open(file).orientation, orientation_of(index));
    EXPECT_LT(mean_difference(data::decode_image(file), drawn), 8) << "orientation " << orientation_of(index);
  }
}

TEST(TexturedImages, DifferByClassSeedAndIndex) {
  std::set<std::vector<std::uint8_t>> seen;
  for (const ImageKey& key : {ImageKey{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}}) {
    seen.insert(draw_textured_image(key, 64, 64).pixels);
    seen.insert(draw_textured_image(key, 64, 64).pixels);
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(TexturedImages, MakeFilesAsLargeAsPhotos) {
  std::size_t bytes = 0;
  for (int i = 0; i < 10; ++i) {
    bytes += find_image_kind("baseline").encode(draw_textured_image({i, 0, 0}, 500, 375), 0).size();
  }
  EXPECT_NEAR(static_cast<double>(bytes) / 10, 110e3, 20e3);
}

/// Path below `folder` → content.
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
  }
  return files;
}

int make_images(const std::string& arguments) {
  return WEXITSTATUS(std::system(((program_folder() / "make_images").string() + " " + arguments).c_str()));
}

TEST(MakeImages, WritesTheSameDataSetEachTime) {
  const TemporaryFolder folder;
  const auto out = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string options =
      " --classes 2 --per-class 6 --val-per-class 1 --size 32x24,24x32 --kinds baseline,png,exif";
  ASSERT_EQ(make_images(out("a") + options), 0);
  ASSERT_EQ(make_images(out("b") + options), 0);
  ASSERT_EQ(make_images(out("c") + options + " --seed 1"), 0);
  const auto files = files_in(out("a"));
  EXPECT_EQ(files.size(), 14u);
  EXPECT_TRUE(files.contains("train/c0001/c0001_0.JPEG"));
  EXPECT_TRUE(files.contains("train/c0001/c0001_2.png"));
  EXPECT_TRUE(files.contains("val/c0000/c0000_0.JPEG"));
  std::set<std::string> contents;
  for (const auto& [name, content] : files) contents.insert(content);
  EXPECT_EQ(contents.size(), 14u) << "the same image twice";
  EXPECT_EQ(files_in(out("b")), files);
  EXPECT_NE(files_in(out("c")), files);
}

TEST(MakeImages, WrongOptionsEndIt) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string();
  for (const char* wrong : {"", "--size 0x9", "--size 64", "--size 9x9x9", "--kinds gif", "--classes 0"}) {
    EXPECT_EQ(make_images((*wrong == 0 ? "" : out + " ") + wrong + " 2>/dev/null"), 2) << wrong;
  }
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(make_images("/proc/none 2>/dev/null"), 1);
}

}  // namespace
}  // namespace mn::test
