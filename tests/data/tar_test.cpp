// WebDataset's tar files as shards.
#include "data/tar.hpp"
#include "data/verify.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <zlib.h>

#include <mn/core/error.hpp>

#include "data/unpack.hpp"
#include "tar_fixture.hpp"

namespace mn::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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
    EXPECT_TRUE(verify_dataset(result.table(), 2).empty());
  }
}

TEST_F(Tar, FoldersGlobalHeadersAndHiddenFilesArePassedOver) {
  const std::string comment = test::pax_record("comment", "made by a test");
  write("a.tar", test::tar_header("g", 'g', comment.size()) + test::padded(comment) +
                     test::tar_header("part/", '5', 0) + tar_file("part/._1000.jpg", "a finder's file") +
                     samples(0, 20) + tar_end());
  expect_samples(convert().table(), 20);
  fs::remove_all(out_);
  write("a.tar",
        tar_file("x.jpg", jpeg(9, 9)) + tar_file("._x.jpg", "a finder's file") + tar_file("x.cls", "0") + tar_end());
  EXPECT_EQ(convert().table().num_samples(), 1);
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
  const std::string json = R"({"target": {"class": 2, "name": "dog"}, "cls": "1", "class": "c", "far": [1]})";
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
  EXPECT_EQ(sample_of("JPG", "TXT").bytes.size(), image.size());
  EXPECT_EQ(sample_of(".depth.png", ".json:cls").label, 1);
  EXPECT_EQ(sample_of("depth.png", "json:class").label, 2);
  EXPECT_THAT(error_with("", "cls"), HasSubstr("no .cls, but x.json: --label-member json:KEY takes the label from it"));
  EXPECT_THAT(error_with("", "json:label"),
              HasSubstr("its .json: no key \"label\", but \"class\", \"cls\", \"far\", \"target\""));
  EXPECT_THAT(error_with("", "json:target.class.x"), HasSubstr("no key \"x\": give its key"));
  EXPECT_THAT(error_with("", "json:target.name"),
              HasSubstr("its .json \"dog\" is not a label (a whole number from 0 to "
                        "2147483647), nor a class of --classes"));
  EXPECT_THAT(error_with("", "json:far"), HasSubstr("is not a label"));
  EXPECT_THAT(error_with("", "txt:a"), AllOf(HasSubstr("its .txt: "), HasSubstr("no key")));
  EXPECT_THAT(error_with("tiff", "txt"), HasSubstr("it has no .tiff"));
  for (const auto& [image_member, label_member] :
       {std::pair("", ""), {"", "json:"}, {"", ":a"}, {"", "json:a..b"}, {"", ".:a"}}) {
    EXPECT_THAT(message_of<UsageError>([&] { (void)WebMembers::parse(image_member, label_member); }),
                HasSubstr("is neither MEMBER nor MEMBER:KEY"));
  }
  EXPECT_THAT(message_of<UsageError>([&] { (void)WebMembers::parse("png", "PNG"); }), HasSubstr("the same member"));
}

void write_gzip(const fs::path& file, const std::string& content) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> packed(gzopen(file.c_str(), "wb1"), gzclose);
  EXPECT_EQ(gzwrite(packed.get(), content.data(), static_cast<unsigned>(content.size())), std::ssize(content));
}

TEST_F(Tar, LargeFilesAreUnpackedToTheEnd) {
  std::string content(9 << 20, '\0');
  for (std::size_t i = 0; i < content.size(); i += 1000) content[i] = static_cast<char>(i / 1000);
  write_gzip(tars_ / "large.gz", content);
  unpack(tars_ / "large.gz", tars_ / "large");
  EXPECT_TRUE(read_file(tars_ / "large") == content);
}

TEST_F(Tar, OtherMembersAreAnotherConversion) {
  for (const char* name : {"a.tar", "b.tar"}) {
    write(name, tar_file("x.jpg", jpeg(20, 30)) + tar_file("x.cls", "0") + tar_file("x.other", "0") + tar_end());
  }
  auto chosen = options({0, 2, "a"});
  EXPECT_FALSE(convert_tar({tars_.string()}, chosen).conversion.complete);
  chosen.output.me = {};
  chosen.members = WebMembers::parse("", "other");
  EXPECT_THAT(message_of<UsageError>([&] { convert_tar({tars_.string()}, chosen); }),
              HasSubstr("holds the beginnings of another conversion"));
}

TEST_F(Tar, PackedFilesAreUnpackedByAnyNumberOfRanks) {
  for (int part = 0; part < 4; ++part) {
    write("part-" + std::to_string(part) + ".tar", samples(part * 12, part * 12 + 12) + tar_end());
  }
  convert();
  const auto expected = files_below(out_);
  for (const auto& [part, ending] : {std::pair(0, ".tar.gz"), std::pair(2, ".tgz")}) {
    const fs::path tar = tars_ / ("part-" + std::to_string(part) + ".tar");
    write_gzip(fs::path(tar).replace_extension(ending), read_file(tar));
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
