// Tar files and samples in them that mnshard cannot take: errors name them, or --skip-bad leaves them out.
#include <algorithm>
#include <string>
#include <utility>

#include <gmock/gmock.h>

#include "tar_fixture.hpp"

namespace mn::data {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

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

}  // namespace
}  // namespace mn::data
