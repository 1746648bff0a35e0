#include <string>
#include <string_view>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/file_kind.hpp>

namespace mn {
namespace {

using namespace std::string_view_literals;

TEST(FileKind, IsToldByTheFirstBytes) {
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid"sv, "a Git LFS pointer"},
      {"\x1F\x8B\x08"sv, "packed by gzip"},
      {"BZh91AY&SY..."sv, "packed by bzip2"},
      {"\xFD\x37zXZ\0\0"sv, "packed by xz"},
      {"\x28\xB5\x2F\xFD..."sv, "packed by zstd"},
      {"PK\x03\x04..."sv, "a ZIP archive"},
      {"\x93NUMPY\x01\0"sv, "an array of numpy's (.npy)"},
      {"GGUF\x03\0"sv, "weights of llama.cpp (.gguf)"},
      {"PAR1\x15"sv, "a Parquet file"},
      {"\xFF\xFEh\0i\0"sv, "text in UTF-16"},
      {"\xFF\xFE\0\0h\0\0\0"sv, "text in UTF-32"},
      {"\0\0\xFE\xFF\0\0\0h"sv, "text in UTF-32"},
      {"\x80\x02\x8A\x0Al"sv, "a Python pickle"},
      {" \n<!DOCTYPE HTML>"sv, "HTML"},
      {"{\"metadata\""sv, "JSON"},
      {tar, "a tar file"}};
  for (const auto& [begin, name] : cases) {
    ASSERT_TRUE(kind_of_file(begin)) << name;
    EXPECT_EQ(kind_of_file(begin)->name, name);
    EXPECT_EQ(kind_of_file(begin)->is_text, name == "HTML" || name == "JSON");
    EXPECT_THAT(but_kind_of_file(begin), testing::StartsWith(" but " + std::string(name) + ": "));
  }
}

TEST(FileKind, TextsWithoutAByteOrderMarkShowTheirEncodingByTheirZeros) {
  EXPECT_STREQ(wide_encoding("h\0\xE9\0 \0"sv), "UTF-16LE");
  EXPECT_STREQ(wide_encoding("\0h\0\xE9\0 "sv), "UTF-16BE");
  EXPECT_STREQ(wide_encoding("\x4B\x6D\xD5\x8B\n\0"sv), "UTF-16LE");
  EXPECT_STREQ(wide_encoding("h\0\0\0\x4B\x6D\0\0\n\0\0\0"sv), "UTF-32LE");
  EXPECT_STREQ(wide_encoding("\0\0\0h\0\0\x6D\x4B\0\0\0\n"sv), "UTF-32BE");
  EXPECT_STREQ(wide_encoding("x\0"sv), "UTF-16LE");
  EXPECT_EQ(wide_encoding("caf\xE9"sv), nullptr);
  EXPECT_EQ(wide_encoding(""sv), nullptr);
}

TEST(FileKind, TextsAndShortFilesHaveNone) {
  for (const std::string_view begin : {""sv, "B"sv, "BM is short for Big Mama"sv, "BZh is no word"sv, "PK"sv,
                                       "text\n"sv, "\xEF\xBB\xBFtext"sv, "version 3 of it"sv}) {
    EXPECT_FALSE(kind_of_file(begin)) << begin;
    EXPECT_EQ(but_kind_of_file(begin), "");
  }
}

}  // namespace
}  // namespace mn
