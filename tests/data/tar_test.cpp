// WebDataset's tar files as shards.
#include "data/tar.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <zlib.h>

#include <mn/core/error.hpp>

#include "images_fixture.hpp"
#include "ranks_fixture.hpp"
#include "tar_files.hpp"

namespace mn::data {
namespace {

using test::message_of;
using test::tar_end;
using test::tar_file;
using test::TarFormat;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class Tar : public testing::Test {
 protected:
  Tar() { fs::create_directory(tars_); }

  /// Samples FIRST … LAST − 1, each an image of another size with label number mod 4.
  std::string samples(int first, int last, TarFormat format = TarFormat::kUstar) {
    std::string content;
    for (int i = first; i < last; ++i) {
      const std::string key = key_of(i);
      images_[key] = jpeg(20 + i % 50, 30 + i / 50);
      content += tar_file(key + ".cls", std::to_string(i % 4) + "\n", format);
      content += tar_file(key + (i % 2 == 0 ? ".jpg" : ".JPEG"), images_[key], format);
      if (i % 3 == 0) content += tar_file(key + ".json", "{}", format);
    }
    return content;
  }
  /// Some of them long: 60 characters of folder, 90 of name.
  static std::string key_of(int i) {
    const std::string number = std::to_string(1000 + i);
    return i % 5 == 0 ? std::string(60, 'd') + "/" + std::string(90, 'n') + number : "part/" + number;
  }
  void write(const std::string& name, const std::string& content) { test::write_text(tars_ / name, content); }
  ImageConvertOptions options(const JobRank& me = {}) const {
    ImageConvertOptions options;
    options.output = {.out = out_, .split = "train", .shard_bytes = 6000, .threads = 2, .me = me};
    return options;
  }
  ImageConversion convert() { return convert_tar({tars_.string()}, options()); }
  std::string error_of(const std::string& content) {
    fs::remove_all(out_);
    write("a.tar", content);
    const std::string error = message_of<DataError>([&] { convert(); });
    EXPECT_EQ(std::ranges::count(error, '\n'), 0) << error;
    EXPECT_FALSE(fs::exists(out_ / kDatasetManifest));
    return error;
  }
  /// Number of shards among these files.
  static std::size_t shards_in(const std::map<std::string, std::string>& files) { return files.size() - 1; }
  void expect_samples(const ShardTable& table, int count) {
    ASSERT_EQ(table.num_samples(), count);
    for (int i = 0; i < count; ++i) {
      const auto sample = extract_sample(table, i);
      EXPECT_EQ(sample.key, key_of(i));
      EXPECT_EQ(sample.label, i % 4);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()),
                images_[sample.key]);
    }
  }

  test::TemporaryFolder folder_;
  fs::path tars_ = folder_.path() / "tars";
  fs::path out_ = folder_.path() / "out";
  std::map<std::string, std::string> images_;  // by key
};

TEST_F(Tar, EveryFormatComesBackInOrder) {
  for (const TarFormat format : {TarFormat::kUstar, TarFormat::kGnu, TarFormat::kPax}) {
    fs::remove_all(out_);
    write("b.tar", samples(40, 60, format) + tar_end());
    write("a.tar", samples(0, 40, format) + tar_end());
    write("readme.txt", "not a tar file");
    const auto result = convert();
    EXPECT_GT(result.table().shards().size(), 4u);
    EXPECT_EQ(result.table().spec().num_classes(), 4);
    expect_samples(result.table(), 60);
    EXPECT_TRUE(verify_dataset(result.table(), 2).damage.empty());
  }
}

TEST_F(Tar, FoldersGlobalHeadersAndHiddenFilesArePassedOver) {
  const std::string comment = test::pax_record("comment", "made by a test");
  write("a.tar", test::tar_header("g", 'g', comment.size()) + test::padded(comment) +
                     test::tar_header("part/", '5', 0) + tar_file("part/._1000.jpg", "a finder's file") +
                     samples(0, 20) + tar_end());
  expect_samples(convert().table(), 20);
}

TEST_F(Tar, NamesMayHaveASlashWhereverAHeaderCutsThemOff) {
  const std::string image = jpeg(9, 9);
  for (const TarFormat format : {TarFormat::kGnu, TarFormat::kPax}) {
    std::string content;
    int count = 0;
    for (const std::size_t folder : {98, 99, 100, 101, 154, 155, 156, 254, 255, 256, 257}) {
      const std::string key = std::string(folder, 'a') + "/" + std::to_string(count++);
      content += tar_file(key + ".jpg", image, format) + tar_file(key + ".cls", "0", format);
    }
    fs::remove_all(out_);
    write("a.tar", content + tar_end());
    EXPECT_EQ(convert().table().num_samples(), count);
  }
}

TEST_F(Tar, ShardsOfSmallImagesAreAsLongAsAskedFor) {
  write("a.tar", samples(0, 100) + tar_end());
  std::size_t bytes = 0;
  for (const auto& [key, image] : images_) bytes += image.size();
  const std::size_t shards = convert().table().shards().size();
  EXPECT_LE(shards, bytes / 6000 * 4 / 3 + 1) << "headers and other members do not count";
  EXPECT_GE(shards, bytes / 6000 * 2 / 3);
}

TEST_F(Tar, LinksAreErrorsOfTheirSampleAlone) {
  const std::string link = test::tar_header("bad.jpg", '2', 0) + tar_file("bad.cls", "1");
  EXPECT_THAT(error_of(samples(0, 5) + link + tar_end()),
              HasSubstr("a.tar: sample bad: its .jpg is a link: write the tar file with --dereference"));
  fs::remove_all(out_);
  write("a.tar",
        tar_file("x.cls", "0") + test::tar_header("x.json", '1', 0) + tar_file("x.png", jpeg(9, 9)) + tar_end());
  EXPECT_EQ(convert().table().num_samples(), 1);
}

TEST_F(Tar, WhatLooksLikeASampleSaysWhatItLacks) {
  const std::string image = jpeg(9, 9);
  EXPECT_THAT(
      error_of(tar_file("22.05.jpg", image) + tar_file("22.05.cls", "1") + tar_end()),
      AllOf(HasSubstr("sample 22: it has no .jpg"), HasSubstr("but 22.05.cls: a sample's name ends at the first dot")));
  EXPECT_THAT(error_of(tar_file("a.jpg", image) + tar_file("b.jpg", image) + tar_file("a.cls", "1") + tar_end()),
              AllOf(HasSubstr("sample a: it has no .cls"), HasSubstr("members of a sample follow one another")));
  EXPECT_THAT(error_of(tar_file("a.gif", "GIF89a") + tar_file("a.cls", "1") + tar_end()), HasSubstr(", but a.gif ("));
}

TEST_F(Tar, PngsAndClassNamesAreTaken) {
  write("a.tar", tar_file("x.cls", " 1 \n") + tar_file("x.png", jpeg(9, 9)) + tar_end());
  test::write_text(folder_.path() / "names", "cat\ndog\nship\n");
  auto named = options();
  named.images.classes = folder_.path() / "names";
  const auto result = convert_tar({(tars_ / "a.tar").string()}, named);
  EXPECT_EQ(result.table().spec()[1].class_names, (std::vector<std::string>{"cat", "dog", "ship"}));
  EXPECT_EQ(result.table().spec().num_classes(), 3);
  EXPECT_EQ(extract_sample(result.table(), 0).label, 1);

  fs::remove_all(out_);
  write("a.tar", tar_file("x.cls", "3") + tar_file("x.png", jpeg(9, 9)) + tar_end());
  EXPECT_THAT(message_of<DataError>([&] { convert_tar({(tars_ / "a.tar").string()}, named); }),
              AllOf(HasSubstr("label 3"), HasSubstr("names 3 classes")));
}

TEST_F(Tar, MembersAreChosenByName) {
  const std::string image = jpeg(9, 9), other = jpeg(12, 8);
  const std::string json = R"({"target": {"class": 2, "name": "dog"}, "cls": "1", "far": [1]})";
  const auto sample_of = [&](const std::string& image_member, const std::string& label_member) {
    fs::remove_all(out_);
    write("a.tar", tar_file("x.jpg", image) + tar_file("x.Depth.PNG", other) + tar_file("x.txt", "0") +
                       tar_file("x.json", json) + tar_end());
    auto chosen = options();
    chosen.images.classes = folder_.path() / "names";
    test::write_text(chosen.images.classes, "a\nb\nc\n");
    chosen.members = WebMembers::parse(image_member, label_member);
    return extract_sample(convert_tar({tars_.string()}, chosen).table(), 0);
  };
  const auto error_with = [&](const std::string& image_member, const std::string& label_member) {
    return message_of<DataError>([&] { (void)sample_of(image_member, label_member); });
  };
  EXPECT_EQ(sample_of("", "json:target.class").label, 2);
  EXPECT_EQ(sample_of("depth.png", "json:cls").label, 1);
  EXPECT_EQ(sample_of("depth.png", "txt").bytes.size(), other.size());
  EXPECT_EQ(sample_of("jpg", "TXT").bytes.size(), image.size());
  EXPECT_THAT(error_with("", "cls"), HasSubstr("no .cls, but x.json: --label-member json:KEY takes the label from it"));
  EXPECT_THAT(error_with("", "json:label"), HasSubstr("its .json: no key \"label\", but \"cls\", \"far\", \"target\""));
  EXPECT_THAT(error_with("", "json:target.class.x"), HasSubstr("no key \"x\": give its key"));
  EXPECT_THAT(error_with("", "json:target.name"), HasSubstr("its .json \"dog\" is not a label"));
  EXPECT_THAT(error_with("", "json:far"), HasSubstr("is not a label"));
  EXPECT_THAT(error_with("", "txt:a"), AllOf(HasSubstr("its .txt: "), HasSubstr("no key")));
  EXPECT_THAT(error_with("tiff", "txt"), HasSubstr("it has no .tiff"));
  for (const auto& [image_member, label_member] : {std::pair("", ""), {"", "json:"}, {"", ":a"}, {"", "json:a..b"}}) {
    EXPECT_THAT(message_of<UsageError>([&] { (void)WebMembers::parse(image_member, label_member); }),
                HasSubstr("is neither MEMBER nor MEMBER:KEY"));
  }
  EXPECT_THAT(message_of<UsageError>([&] { (void)WebMembers::parse("png", "PNG"); }), HasSubstr("the same member"));
}

TEST_F(Tar, PackedFilesAreUnpackedByAnyNumberOfRanks) {
  for (int part = 0; part < 4; ++part) {
    write("part-" + std::to_string(part) + ".tar", samples(part * 12, part * 12 + 12) + tar_end());
  }
  convert();
  const auto expected = files_below(out_);
  for (const int part : {0, 2}) {
    const fs::path tar = tars_ / ("part-" + std::to_string(part) + ".tar");
    const std::string content = read_file(tar);
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> packed(gzopen((tar.string() + ".gz").c_str(), "wb"), gzclose);
    ASSERT_EQ(gzwrite(packed.get(), content.data(), static_cast<unsigned>(content.size())), std::ssize(content));
    fs::remove(tar);
  }
  for (const int size : {1, 2, 3}) {
    fs::remove_all(out_);
    by_ranks(size, [&](const JobRank& me) { return convert_tar({tars_.string()}, options(me)).left_out; });
    auto found = files_below(out_);
    EXPECT_EQ(found.size(), expected.size());
    expect_samples(read_manifest(out_), 48);
    EXPECT_FALSE(fs::exists(out_ / ".conversion"));
  }
}

TEST_F(Tar, DamagedFilesAreNamed) {
  const std::string good = samples(0, 30);
  EXPECT_THAT(error_of(good), AllOf(HasSubstr("a.tar"), HasSubstr("its end is missing")));
  EXPECT_THAT(error_of(good.substr(0, good.size() - 700)),
              AllOf(HasSubstr("a.tar"), HasSubstr("longer than the file")));
  EXPECT_THAT(error_of(good.substr(0, good.size() - 512 * 3 + 100)), HasSubstr("a.tar"));
  EXPECT_THAT(error_of(good + tar_end() + good + tar_end()), HasSubstr("two tar files in one"));
  EXPECT_THAT(error_of(""), HasSubstr("its end is missing"));
  EXPECT_THAT(error_of(std::string("\x1f\x8b\x08\x00", 4) + good), HasSubstr("a.tar is damaged or truncated ("));
  EXPECT_THAT(error_of("\x28\xb5\x2f\xfd" + good),
              AnyOf(HasSubstr("a.tar is damaged or truncated ("),
                    HasSubstr("a.tar is packed by zstd, and mn was built without")));
  EXPECT_THAT(error_of("BZh91AY&SY" + good), HasSubstr("is not a tar file but packed by bzip2: unpack it"));
  EXPECT_THAT(error_of("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("but a Git LFS pointer: fetch"));
  EXPECT_THAT(error_of(std::string(1000, 'x')), HasSubstr("checksum of a header"));
  std::string flipped = good + tar_end();
  flipped[512 * 2 + 3] ^= 1;  // in a name
  EXPECT_THAT(error_of(flipped), HasSubstr("checksum of a header differs at byte 1024"));
  const std::string sparse = test::pax_record("GNU.sparse.major", "1") + test::pax_record("GNU.sparse.name", "x.jpg");
  for (const std::string& content :
       {test::tar_header("x.jpg", 'S', 0), test::tar_header("p", 'x', sparse.size()) + test::padded(sparse)}) {
    EXPECT_THAT(error_of(content + tar_end()),
                HasSubstr("a.tar: \"x.jpg\" is a sparse file, which is not read: write"));
  }
  EXPECT_THAT(error_of(test::tar_header("p", 'x', 9) + test::padded("99 path=x") + good + tar_end()),
              HasSubstr("malformed pax record"));
  EXPECT_THAT(error_of(test::tar_header("p", 'L', std::size_t{1} << 21) + std::string(1 << 21, 'x') + tar_end()),
              HasSubstr("a name of 2097152 bytes"));
  EXPECT_THAT(error_of(tar_end()), HasSubstr("no usable sample"));
  fs::remove_all(out_);
  fs::remove(tars_ / "a.tar");
  EXPECT_THAT(message_of<DataError>([&] { convert(); }), HasSubstr("there is no .tar file"));
  EXPECT_THAT(message_of<DataError>([&] { convert_tar({"none.tar"}, options()); }), HasSubstr("none.tar"));
}

TEST_F(Tar, SamplesThatAreNoneAreNamedOrLeftOut) {
  const std::string image = jpeg(9, 9);
  const std::pair<std::string, std::string> bad[] = {
      {tar_file("bad.jpg", image), "it has no .cls"},
      {tar_file("bad.cls", "1"), "it has no .jpg"},
      {tar_file("bad.jpg", image) + tar_file("bad.cls", "dog"), "not a label"},
      {tar_file("bad.jpg", image) + tar_file("bad.cls", "-1"), "not a label"},
      {tar_file("bad.jpg", image) + tar_file("bad.cls", "2147483648"), "not a label"},
      {tar_file("bad.jpg", image) + tar_file("bad.png", image) + tar_file("bad.cls", "1"), "two images"},
      {tar_file("bad.jpg", image) + tar_file("bad.cls", "1") + tar_file("bad.cls", "2"), "two labels"},
      {tar_file("bad.jpg", "GIF89a") + tar_file("bad.cls", "1"),
       "not a JPEG, PNG, WebP, TIFF, BMP, PPM or PGM but GIF"},
      {tar_file("bad.jpg", image.substr(0, 300)) + tar_file("bad.cls", "1"), "damaged JPEG"}};
  const std::string good = samples(0, 5);
  for (const auto& [member, what] : bad) {
    EXPECT_THAT(error_of(good + member + tar_end()), AllOf(HasSubstr("a.tar: sample bad"), HasSubstr(what)));
    fs::remove_all(out_);
    auto lenient = options();
    lenient.images.skip_bad = true;
    const auto result = convert_tar({tars_.string()}, lenient);
    EXPECT_EQ(result.left_out, 1);
    EXPECT_THAT(result.errors, testing::ElementsAre(HasSubstr("sample bad")));
    expect_samples(result.table(), 5);
  }
}

TEST_F(Tar, AClassOfALeftOutSampleRemainsAndIsNamed) {
  write("a.tar", samples(0, 5) + tar_file("bad.jpg", jpeg(9, 9).substr(0, 300)) + tar_file("bad.cls", "4") + tar_end());
  auto lenient = options();
  lenient.images.skip_bad = true;
  const auto result = convert_tar({tars_.string()}, lenient);
  EXPECT_EQ(result.table().spec().num_classes(), 5);
  EXPECT_THAT(result.empty_classes, testing::ElementsAre("4"));
}

TEST_F(Tar, LabelsHaveNoGaps) {
  for (const auto& [label, classes] : {std::pair("5", "6"), std::pair("2147483647", "2147483648")}) {
    const std::string last = tar_file("last.jpg", jpeg(9, 9)) + tar_file("last.cls", label);
    EXPECT_THAT(error_of(samples(0, 4) + last + tar_end()),
                AllOf(HasSubstr("of the " + std::string(classes) + " classes in "), HasSubstr("is empty: number the")));
  }
  write("a.tar", samples(0, 4) + tar_file("last.jpg", jpeg(9, 9)) + tar_file("last.cls", "5") + tar_end());
  auto named = options();
  named.images.classes = folder_.path() / "names";
  test::write_text(named.images.classes, "a\nb\nc\nd\ne\nf\n");
  fs::remove_all(out_);
  EXPECT_EQ(convert_tar({tars_.string()}, named).table().spec().num_classes(), 6);
}

TEST_F(Tar, WhatWasLeftOutBeforeIsNotLeftOutUnasked) {
  write("a.tar", samples(0, 5) + tar_file("bad.cls", "1") + tar_end());
  write("b.tar", samples(5, 10) + tar_end());
  auto lenient = options({0, 2, "a"});
  lenient.images.skip_bad = true;
  EXPECT_FALSE(convert_tar({tars_.string()}, lenient).conversion.complete);
  EXPECT_THAT(message_of<DataError>([&] { convert(); }), HasSubstr("sample bad"));
  lenient.output.me = {};
  const auto result = convert_tar({tars_.string()}, lenient);
  EXPECT_EQ(result.left_out, 1);
  expect_samples(result.table(), 10);
}

TEST_F(Tar, RanksMakeWhatOneProcessMakes) {
  for (int part = 0; part < 5; ++part) {
    write("part-" + std::to_string(part) + ".tar", samples(part * 12, part * 12 + 12) + tar_end());
  }
  convert();
  const auto expected = files_below(out_);
  for (const int size : {1, 2, 3, 4, 9}) {
    fs::remove_all(out_);
    by_ranks(size, [&](const JobRank& me) { return convert_tar({tars_.string()}, options(me)).left_out; });
    EXPECT_EQ(files_below(out_), expected) << size;
  }
}

TEST_F(Tar, ALostRanksPartIsMadeByTheNextRun) {
  for (int part = 0; part < 3; ++part) {
    write("part-" + std::to_string(part) + ".tar", samples(part * 12, part * 12 + 12) + tar_end());
  }
  convert();
  const auto expected = files_below(out_);
  fs::remove_all(out_);
  convert_tar({tars_.string()}, options({0, 2, "a"}));
  fs::remove(out_ / shard_file_name("train", 0, shards_in(expected)));  // the first of a tar file with several
  EXPECT_GT(convert().conversion.kept_shards, 0);
  EXPECT_EQ(files_below(out_), expected);
}

TEST_F(Tar, TheReaderFindsContentAndPlaces) {
  const std::string big(3 << 20, 'b');
  write("a.tar", tar_file("big", big) + tar_file(std::string(120, 'l'), "after", TarFormat::kGnu) + tar_end());
  TarReader reader(tars_ / "a.tar");
  auto member = reader.next();
  ASSERT_TRUE(member);
  EXPECT_EQ(reader.read(*member).size(), big.size());
  member = reader.next();
  ASSERT_TRUE(member);
  EXPECT_EQ(member->name, std::string(120, 'l'));
  EXPECT_EQ(member->header_at, 512 + big.size()) << "where its long name begins";
  EXPECT_EQ(static_cast<char>(reader.read(*member)[0]), 'a');
  EXPECT_FALSE(reader.next());
}

TEST_F(Images, ResizedOnesAreSmallerAndTheOthersUntouched) {
  auto small = options();
  small.images.resize = 25;
  const ShardTable table = convert_images(source_, small).table();
  for (std::int64_t i = 0; i < table.num_samples(); ++i) {
    const auto sample = extract_sample(table, i);
    const Image before = decode_image(std::as_bytes(std::span(content_[sample.key])));
    const Image after = decode_image(sample.bytes);
    if (std::min(before.width, before.height) <= 25) {
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()),
                content_[sample.key]);
    } else {
      EXPECT_EQ(std::min(after.width, after.height), 25);
      EXPECT_NEAR(after.width * before.height, before.width * after.height, std::max(before.width, before.height));
      EXPECT_NEAR(after.row(after.height / 2)[3 * (after.width / 2)],
                  before.row(before.height / 2)[3 * (before.width / 2)], 40);
    }
  }
}

}  // namespace
}  // namespace mn::data
