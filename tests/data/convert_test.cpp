// Converters of images: the shards hold the images' bytes.
#include <gmock/gmock.h>

#include <mn/core/error.hpp>

#include "data/label_list.hpp"
#include "data/verify.hpp"
#include "images_fixture.hpp"
#include "tests/image/png_samples.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(Images, EveryFileComesBackWithItsClass) {
  const auto result = convert();
  EXPECT_GT(result.table().shards().size(), 3u);
  EXPECT_EQ(result.table().spec()[1].class_names, (std::vector<std::string>{"c0", "c1", "c2"}));
  EXPECT_EQ(result.left_out, 0);
  const auto labels = labels_by_key(result.table());
  EXPECT_EQ(labels.size(), 40u);
  for (const auto& [key, label] : labels) EXPECT_EQ("c" + std::to_string(label), key.substr(0, 2));
  EXPECT_TRUE(verify_dataset(result.table(), 2).empty());
  for (const ShardInfo& shard : result.table().shards()) EXPECT_LT(shard.bytes, 8000 + 64 * 1024);
}

TEST_F(Images, ClassesAreMixedOverTheShards) {
  const auto result = convert();
  int changes = 0;
  for (std::int64_t i = 1; i < 40; ++i) {
    changes += extract_sample(result.table(), i).label != extract_sample(result.table(), i - 1).label ? 1 : 0;
  }
  EXPECT_GT(changes, 15);
}

TEST_F(Images, ThreadsAndRunsChangeNothing) {
  convert();
  const auto first = snapshot();
  fs::remove_all(out_);
  auto serial = options();
  serial.output.threads = 1;
  convert_images(source_, serial);
  EXPECT_EQ(snapshot(), first);
}

TEST_F(Images, AListFileMayNameAnyFiles) {
  add("other/with space.jpg", jpeg(50, 50));
  test::write_text(source_ / "list.txt",
                   "\xef\xbb\xbf"
                   "c0/0.jpg 1\nother/with space.jpg\t0\r\n\nc1/1.jpg 1\n");
  const auto result = convert_images(source_ / "list.txt", options());
  EXPECT_EQ(labels_by_key(result.table()),
            (std::map<std::string, std::int64_t>{{"c0/0.jpg", 1}, {"other/with space.jpg", 0}, {"c1/1.jpg", 1}}));
  EXPECT_EQ(result.table().spec().num_classes(), 2);
}

TEST_F(Images, AListMayHaveNamesForItsLabels) {
  test::write_text(source_ / "list.txt", "c0/0.jpg 2\nc1/1.jpg 0\n");
  auto named = options();
  named.images.classes = source_ / "names";
  const auto use = [&](const std::string& names) {
    test::write_text(named.images.classes, names);
    return message_of<DataError>([&] { convert_images(source_ / "list.txt", named); });
  };
  EXPECT_THAT(use("a\nb\n"), AllOf(HasSubstr("names 2 classes"), HasSubstr("label 2")));
  EXPECT_THAT(use("a\nb\na\n"), AllOf(HasSubstr("names:3"), HasSubstr("\"a\""), HasSubstr("names:1")));
  EXPECT_THAT(use("a\n\nb\nc\n"), AllOf(HasSubstr("names:2"), HasSubstr("empty")));
  EXPECT_THAT(use("a\nb\n" + std::string(256, 'c')), HasSubstr("names:3"));
  EXPECT_THAT(message_of<UsageError>([&] { convert_images(source_, named); }),
              HasSubstr("--classes is for list files"));

  EXPECT_EQ(use("\xef\xbb\xbf"
                "a\r\nb c\nd\ne\n\n"),
            "");
  const ShardTable table = read_manifest(out_);
  EXPECT_EQ(table.spec()[1].class_names, (std::vector<std::string>{"a", "b c", "d", "e"}));
  EXPECT_EQ(table.spec().num_classes(), 4);
  EXPECT_EQ(labels_by_key(table), (std::map<std::string, std::int64_t>{{"c0/0.jpg", 2}, {"c1/1.jpg", 0}}));
}

TEST_F(Images, WrongListsAreNamed) {
  const auto use = [&](const std::string& text) {
    test::write_text(source_ / "list.txt", text);
    return message_of<DataError>([&] { convert_images(source_ / "list.txt", options()); });
  };
  EXPECT_THAT(use("c0/0.jpg 0\nc0/3.jpg zero\n"), AllOf(HasSubstr("list.txt:2"), HasSubstr("\"zero\"")));
  EXPECT_THAT(use("c0/0.jpg\n"), AllOf(HasSubstr("list.txt:1"), HasSubstr("path label")));
  EXPECT_THAT(use("absent.jpg 0\n"), AllOf(HasSubstr("absent.jpg"), HasSubstr("No such file")));
  EXPECT_THAT(use("c0/0.jpg -1\n"), HasSubstr("not a label"));
  EXPECT_THAT(use("c0/0.jpg 2\nc0/3.jpg 0\n"), AllOf(HasSubstr("class 1"), HasSubstr("empty")));
  EXPECT_THAT(use("\n"), HasSubstr("lists no images"));
  EXPECT_FALSE(fs::exists(out_)) << "no output was begun";
}

TEST_F(Images, WrongFoldersAreNamed) {
  fs::create_directories(source_ / "c9");
  EXPECT_THAT(message_of<DataError>([&] { convert(); }), AllOf(HasSubstr("class c9"), HasSubstr("empty")));
  EXPECT_THAT(message_of<DataError>([&] { convert_images(source_ / "c0", options()); }),
              HasSubstr("no folders with images"));
  EXPECT_THAT(message_of<DataError>([&] { convert_images(source_ / "none", options()); }),
              HasSubstr("no folder or list file"));
}

TEST_F(Images, ClassesMayHaveFolders) {
  add("c1/images/7.JPEG", jpeg(50, 50));
  add("c1/images/deep/8.jpg", jpeg(51, 50));
  const auto labels = labels_by_key(convert().table());
  EXPECT_EQ(labels.size(), 42u);
  EXPECT_EQ(labels.at("c1/images/7.JPEG"), 1);
  EXPECT_EQ(labels.at("c1/images/deep/8.jpg"), 1);
}

TEST_F(Images, LinksAreFollowedOnce) {
  fs::create_directory_symlink("..", source_ / "c0" / "up");
  fs::create_directory_symlink(".", source_ / "c1" / "self");
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::create_directories(elsewhere);
  test::write_text(elsewhere / "x.jpg", content_["c2/other/x.jpg"] = jpeg(9, 9));
  fs::create_directory_symlink(elsewhere, source_ / "c2" / "other");
  const auto labels = labels_by_key(convert().table());
  EXPECT_EQ(labels.size(), 41u);
  EXPECT_EQ(labels.at("c2/other/x.jpg"), 2);
}

TEST_F(Images, OtherFilesAreLeftAloneInOneLine) {
  for (const char* name : {"c0/Thumbs.db", "c0/.DS_Store", "c1/desktop.ini", "c1/boxes.txt", "loose.jpg"}) {
    test::write_text(source_ / name, "?");
  }
  std::vector<std::string> warnings;
  auto warning = options();
  warning.images.warn = [&](const std::string& text) { warnings.push_back(text); };
  EXPECT_EQ(labels_by_key(convert_images(source_, warning).table()).size(), 40u);
  EXPECT_THAT(warnings, testing::ElementsAre(AllOf(HasSubstr(": 4,"), HasSubstr("/loose.jpg"))));
}

TEST_F(Images, NamesOfClassesThatAreNotUtf8AreRecordedReadably) {
  test::write_text(folder_.path() / "names.txt", "caf\xe9\n");
  EXPECT_THAT(message_of<DataError>([&] { (void)read_class_names(folder_.path() / "names.txt"); }),
              AllOf(HasSubstr("names.txt:1"), HasSubstr("not UTF-8"), HasSubstr("iconv")));
  add("caf\xe9/x.jpg", jpeg(9, 9));
  std::vector<std::string> warnings;
  auto warning = options();
  warning.images.warn = [&](const std::string& text) { warnings.push_back(text); };
  const ImageConversion made = convert_images(source_, warning);
  EXPECT_EQ(labels_by_key(made.table()).at("caf\xe9/x.jpg"), 3);
  EXPECT_EQ(made.table().spec()[1].class_names.at(3), "caf\\xE9");
  EXPECT_THAT(warnings, testing::ElementsAre(AllOf(HasSubstr(": 1,"), HasSubstr("class caf\\xE9"))));
}

TEST_F(Images, ListsAndNamesInOtherEncodingsAreNamed) {
  const auto wide = [](std::string_view text) {
    std::string bytes;
    for (const char c : text) bytes.append({c, '\0'});
    return bytes;
  };
  const std::pair<std::string, const char*> cases[] = {
      {"\xFF\xFE" + wide("c0/0.jpg 0\n"), "text in UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`"},
      {"\xFF\xFE\x4B\x6D\xD5\x8B", "text in UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`"},
      {wide("c0/0.jpg 0\n"), "`iconv -f UTF-16LE -t UTF-8`"}};
  const fs::path file = source_ / "list.txt", names = folder_.path() / "names.txt";
  test::write_text(names, "a\n");
  for (const auto& [text, what] : cases) {
    test::write_text(file, text);
    EXPECT_THAT(message_of<DataError>([&] { (void)read_class_names(file); }),
                AllOf(HasSubstr(file.string()), HasSubstr(what)));
    EXPECT_THAT(message_of<DataError>([&] { convert_images(file, options()); }),
                AllOf(HasSubstr(file.string()), HasSubstr(what)));
  }
}

TEST_F(Images, ALinkToNowhereIsAnUnusableFile) {
  fs::create_symlink("nowhere", source_ / "c0" / "gone.jpg");
  EXPECT_THAT(message_of<DataError>([&] { convert(); }), AllOf(HasSubstr("c0/gone.jpg"), HasSubstr("No such file"),
                                                               HasSubstr("to list again, remove " + out_.string())));
  auto lenient = options();
  lenient.images.skip_bad = true;
  EXPECT_EQ(convert_images(source_, lenient).left_out, 1);
}

TEST_F(Images, EveryKindOfJpegIsTaken) {
  add("c0/gray.jpg", jpeg(31, 17, {.color = Color::kGray}));
  add("c0/cmyk.jpg", jpeg(31, 17, {.color = Color::kCmyk}));
  add("c0/ycck.jpg", jpeg(31, 17, {.color = Color::kYcck}));
  add("c0/progressive.jpg", jpeg(31, 17, {.progressive = true}));
  add("c0/rotated.jpg", jpeg(31, 17, {.orientation = 6}));
  EXPECT_EQ(labels_by_key(convert().table()).size(), 45u);
}

TEST_F(Images, PngsAreTakenUnderAnyName) {
  const auto add_png = [&](const std::string& key, const PngOptions& options) {
    const auto bytes = make_png(options).bytes;
    add(key, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  add_png("c0/n02105855_2933.JPEG", {.color = PngColor::kRgbAlpha});
  add_png("c1/palette.png", {.color = PngColor::kPalette, .depth = 4, .transparency = true});
  add_png("c2/deep.PNG", {.depth = 16, .interlaced = true, .orientation = 6});
  add("c2/really a jpeg.png", jpeg(31, 17));
  const ImageConversion made = convert_images(source_, options());
  EXPECT_EQ(labels_by_key(made.table()).size(), 44u);
  EXPECT_THAT(made.warning,
              HasSubstr("images of 16 bits a value: 1, the first c2/deep.PNG; training gets their high 8"));
}

TEST_F(Images, NoUsableFileIsAnError) {
  fs::remove_all(source_);
  add("c0/a.jpg", "no image");
  auto lenient = options();
  lenient.images.skip_bad = true;
  EXPECT_EQ(message_of<DataError>([&] { convert_images(source_, lenient); }), "none of the 1 files is a usable image");
}

TEST_F(Images, OtherFormatsAreNamedWithTheFile) {
  add("c1/moving.png", "GIF89a.....");
  EXPECT_THAT(message_of<DataError>([&] { convert(); }),
              AllOf(HasSubstr((source_ / "c1/moving.png").string()),
                    HasSubstr("not a JPEG, PNG, WebP, TIFF, BMP, PPM or PGM but GIF: convert it")));
}

TEST_F(Images, UnusableFilesAreNamedOrLeftOut) {
  const std::string good = jpeg(64, 64);
  add("c0/truncated.jpg", good.substr(0, good.size() / 2));
  const std::string png = "\x89PNG\r\n\x1a\n";
  add("c1/truncated.png", png + std::string("\0\0\0\rIHDR", 8));
  add("c1/text.jpg", "no image at all");
  add("c2/empty.jpg", "");
  EXPECT_THAT(message_of<DataError>([&] { convert(); }),
              AllOf(HasSubstr(source_.string()), HasSubstr("--on-error skip")));

  auto lenient = options();
  lenient.images.skip_bad = true;
  const auto result = convert_images(source_, lenient);  // resumes in the same folder
  EXPECT_EQ(labels_by_key(result.table()).size(), 40u);
  EXPECT_EQ(result.left_out, 4);
  EXPECT_LE(result.errors.size(), 4u);
  for (const std::string& error : result.errors) EXPECT_THAT(error, HasSubstr(source_.string()));
}

}  // namespace
}  // namespace mn::data
